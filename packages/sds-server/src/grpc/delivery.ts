/** Reports when a peer has received what was written, for protocols without acknowledgements. */
import { randomBytes } from 'node:crypto'
import type { Http2Session } from 'node:http2'

/** RFC 9113, section 6.7. */
const PING_BYTES = 8

/** The tasks that wait for the next PING, of sessions with one on its way. */
const waiting = new WeakMap<Http2Session, (() => void)[]>()

/**
 * Calls `task` when the peer of `session` has received everything that was written to it before: it answers a PING, and reads
 * frames in their order (RFC 9113, section 6.7). One PING at a time serves all streams of a connection. If the connection
 * ends before, or the answer is to another PING, `task` is never called.
 */
export function onReceived(session: Http2Session, task: () => void): void {
  if (session.destroyed || session.closed) return
  const next = waiting.get(session)
  if (next) next.push(task)
  else sendPing(session, [task])
}

function sendPing(session: Http2Session, tasks: readonly (() => void)[]): void {
  const next: (() => void)[] = []
  waiting.set(session, next)
  // Node accepts any answer, even from a peer that has not read the PING: the random payload proves it.
  const payload = randomBytes(PING_BYTES)
  session.ping(payload, (error, _, answer) => {
    waiting.delete(session)
    if (error || !payload.equals(answer)) return
    for (const task of tasks) task()
    if (next.length > 0 && !session.destroyed) sendPing(session, next)
  })
}
