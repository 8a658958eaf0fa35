/** The messages between an agent and its successor: lines of JSON on a socket in the directory of the store. */
import { join } from 'node:path'

/**
 * The requests of the successor, in this order. `store`: the owner writes pending changes, and nothing more. `serving`: the
 * owner drains, because the successor has the sockets. The owner keeps the addresses of its endpoints until it ends.
 */
const STEPS = ['store', 'serving'] as const
export type Step = (typeof STEPS)[number]

/** The answer to a step: it is done, or the reason why it is not. */
export type StepAnswer = { readonly done: Step } | { readonly failed: string }

/** The longest line that either side reads, bytes. */
export const MAX_LINE_BYTES = 4_096

/** The socket of a store's owner: mode 0600, in a directory of mode 0700. */
export function ownerSocket(storeDirectory: string): string {
  return join(storeDirectory, 'owner.sock')
}

/** `undefined` for anything else. */
export function parseStep(line: string): Step | undefined {
  const asked = fieldOf(line, 'step')
  return STEPS.find(step => step === asked)
}

export function parseAnswer(line: string): StepAnswer {
  const done = STEPS.find(step => step === fieldOf(line, 'done'))
  if (done) return { done }
  const failed = fieldOf(line, 'failed')
  return { failed: typeof failed === 'string' ? failed : 'its answer is not understood: it may be of another version' }
}

function fieldOf(line: string, name: string): unknown {
  try {
    const message: unknown = JSON.parse(line)
    return typeof message === 'object' && message !== null ? Reflect.get(message, name) : undefined
  } catch {
    return undefined
  }
}
