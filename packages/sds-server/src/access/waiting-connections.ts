/** Connections of callers without facts yet: kept for a bounded time, until the facts arrive. */
import type { Socket } from 'node:net'
import { after, type Clock } from '@livery/core/plugin'

/**
 * A workload can be running before its facts arrive here. A peer that was refused comes back by its own backoff, up to 30 s
 * later; one that waits is let in at the moment of the facts. Less than the time for which clients wait for the first bytes
 * (20 s in grpc-go) or for their first secret (15 s in Envoy).
 */
const WAIT_MS = 5_000
/** Waiting connections of one subject: each can fill the buffers of its socket. A proxy has one. */
const MAX_OF_SUBJECT = 16

interface WaitingConnection {
  readonly socket: Socket
  readonly info: { readonly subject?: string }
}

export class WaitingConnections<Waiting extends WaitingConnection> {
  readonly #clock: Clock
  readonly #onEnd: (waiting: Waiting) => void
  readonly #bySubject = new Map<string, Map<Waiting, Disposable>>()

  /** `onEnd` is called when the wait failed, also because the peer left. */
  constructor(clock: Clock, onEnd: (waiting: Waiting) => void) {
    this.#clock = clock
    this.#onEnd = onEnd
  }

  subjects(): readonly string[] {
    return [...this.#bySubject.keys()]
  }

  /** Returns `false` if too many of its subject wait already. */
  add(subject: string, waiting: Waiting): boolean {
    const present = this.#bySubject.get(subject) ?? new Map<Waiting, Disposable>()
    if (present.size >= MAX_OF_SUBJECT) return false
    this.#bySubject.set(subject, present)
    const end = () => this.#end(subject, waiting)
    waiting.socket.once('close', end)
    const timer = after(this.#clock, WAIT_MS, end)
    present.set(waiting, {
      [Symbol.dispose]() {
        timer[Symbol.dispose]()
        waiting.socket.off('close', end)
      },
    })
    return true
  }

  /** Takes the connections of a subject out of the wait. */
  take(subject: string): readonly Waiting[] {
    const present = this.#bySubject.get(subject)
    this.#bySubject.delete(subject)
    if (!present) return []
    for (const wait of present.values()) wait[Symbol.dispose]()
    return [...present.keys()]
  }

  endAll(): void {
    for (const subject of this.subjects()) for (const waiting of this.take(subject)) this.#onEnd(waiting)
  }

  #end(subject: string, waiting: Waiting): void {
    const present = this.#bySubject.get(subject)
    present?.get(waiting)?.[Symbol.dispose]()
    present?.delete(waiting)
    if (present?.size === 0) this.#bySubject.delete(subject)
    this.#onEnd(waiting)
  }
}
