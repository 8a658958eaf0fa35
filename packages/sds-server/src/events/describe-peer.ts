/** Describes the peer of a stream in words. */
import type { StreamInfo } from './sds-event.ts'

export function describePeer({ node, connection }: StreamInfo): string {
  const { socket, caller, subject } = connection
  const who = node === '' ? 'a caller' : `node "${node}"`
  const credentials = caller ? ` (pid ${caller.pid}, uid ${caller.uid}${subject ? `, ${subject}` : ''})` : ''
  return `${who}${credentials} on ${socket}`
}
