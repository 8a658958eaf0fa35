/** How many streams the peer of a connection may open: a few more than those on which it has sent a request. */
import type { ServerHttp2Session } from 'node:http2'

/**
 * An Envoy opens all its streams before it has read a SETTINGS frame, a thousand on one connection. Beyond this nghttp2 answers HEADERS
 * with REFUSED_STREAM and makes no object for them, whether the peer has acknowledged the SETTINGS or not.
 */
export const UNPROVEN_STREAMS = 1_024

export class StreamAllowance {
  readonly #most: number
  #session: ServerHttp2Session | undefined
  #proven = 0
  #allowed: number

  /** `most`: the bound whatever the peer proves. */
  constructor(most: number) {
    this.#most = most
    this.#allowed = Math.min(most, UNPROVEN_STREAMS)
  }

  /** Call it once. */
  watch(session: ServerHttp2Session): void {
    this.#session = session
    session.on('localSettings', () => this.#adjust())
  }

  /** Whether a stream is open that has sent a request. */
  get isProven(): boolean {
    return this.#proven > 0
  }

  /** A stream has sent a request. */
  add(): void {
    this.#proven++
    this.#adjust()
  }

  /** A stream that had sent one has ended. */
  delete(): void {
    this.#proven--
    this.#adjust()
  }

  /** One SETTINGS frame for hundreds of streams, and none while the peer has one to acknowledge. */
  #adjust(): void {
    const session = this.#session
    const wanted = Math.min(this.#most, this.#proven + UNPROVEN_STREAMS)
    const isNear = Math.abs(wanted - this.#allowed) < UNPROVEN_STREAMS / 2
    if (!session || isNear || session.destroyed || session.closed || session.pendingSettingsAck) return
    this.#allowed = wanted
    session.settings({ maxConcurrentStreams: wanted })
  }
}
