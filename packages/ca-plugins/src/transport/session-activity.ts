/** The open calls of an HTTP/2 session: while there are any, it keeps the process alive and is probed. */
import type { ClientHttp2Session } from 'node:http2'
import { after, type Clock } from '@livery/core/plugin'

export interface Keepalive {
  /** How long calls wait before the connection is probed, milliseconds. */
  readonly afterMs: number
  /** How long a probe may take before the connection is given up, milliseconds. */
  readonly timeoutMs: number
}

export class SessionActivity {
  readonly session: ClientHttp2Session
  readonly #clock: Clock
  readonly #keepalive: Keepalive | undefined
  #calls = 0
  #timer: Disposable | undefined

  constructor(session: ClientHttp2Session, clock: Clock, keepalive: Keepalive | undefined) {
    this.session = session
    this.#clock = clock
    this.#keepalive = keepalive
    session.unref()
  }

  begin(): void {
    if (this.#calls++ > 0) return
    this.session.ref()
    this.#scheduleProbe()
  }

  end(): void {
    if (--this.#calls > 0) return
    this.session.unref()
    this.#timer?.[Symbol.dispose]()
  }

  #scheduleProbe(): void {
    const keepalive = this.#keepalive
    if (keepalive) this.#timer = after(this.#clock, keepalive.afterMs, () => this.#probe(keepalive))
  }

  #probe({ timeoutMs }: Keepalive): void {
    const { session } = this
    if (session.destroyed || session.closed) return
    this.#timer = after(this.#clock, timeoutMs, () =>
      session.destroy(new Error(`no answer to a ping within ${timeoutMs} ms`)),
    )
    session.ping(error => {
      if (error) return
      this.#timer?.[Symbol.dispose]()
      if (this.#calls > 0) this.#scheduleProbe()
    })
  }
}
