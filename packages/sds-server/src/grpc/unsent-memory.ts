/**
 * Keeps memory that HTTP/2 may still send from. Of a write that the peer's window divides, Node keeps a reference for the last
 * part only: once its stream is destroyed, the other parts point at memory that is free for the key of another caller.
 */
import type { Http2Session, ServerHttp2Stream } from 'node:http2'
import { onSessionReceived } from './delivery.ts'

/** Per connection. A peer that has more is gone, or resets streams faster than it reads. */
const MAX_BYTES = 1_048_576

const unsent = new WeakMap<Http2Session, UnsentMemory>()

/** To be called before a write; `undefined` for a stream that has no session any more. */
export function unsentMemoryOf(stream: ServerHttp2Stream): UnsentMemory | undefined {
  const { session } = stream
  if (!session || session.destroyed) return undefined
  const present = unsent.get(session)
  if (present) return present
  const created = new UnsentMemory(session)
  unsent.set(session, created)
  return created
}

/** That of one connection. Its socket holds it: what waits there outlives the session. */
class UnsentMemory {
  readonly #session: Http2Session
  readonly #kept = new Set<Buffer>()
  #bytes = 0

  constructor(session: Http2Session) {
    this.#session = session
    session.socket.once('close', () => this.#kept.clear())
  }

  /** Keeps `bytes` until the peer has received all that was sent before, or its connection is closed. */
  keep(bytes: Buffer): void {
    const session = this.#session
    this.#kept.add(bytes)
    this.#bytes += bytes.buffer.byteLength
    onSessionReceived(session, () => {
      this.#kept.delete(bytes)
      this.#bytes -= bytes.buffer.byteLength
    })
    if (this.#bytes > MAX_BYTES && !session.destroyed) session.destroy()
  }
}
