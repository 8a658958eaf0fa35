/** Whose stream it is, in the words of an operator. */
import type { StreamFacts } from './state.ts'

/** The name by which an operator finds a client. */
export function clientOf({ node, subject, pid }: StreamFacts): string {
  if (node !== '') return node
  return subject ?? (pid === undefined ? 'a client' : `the process ${pid}`)
}
