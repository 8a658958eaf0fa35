/** Makes unary calls over one HTTP/2 session, which it dials on demand and again after a loss. */
import { constants } from 'node:http2'
import { status } from '@grpc/grpc-js'
import { after, type Clock, sleep, untilAborted } from '@livery/core/plugin'
import { reasonOf } from '../answers/reason-of.ts'
import { type ChannelCall, type ChannelOptions, type Keepalive, MAX_ANSWER_BYTES } from './grpc-channel.ts'
import { serviceError } from './grpc-status.ts'
import { formatHostPort } from './host-port.ts'
import { type Dial, dialer } from './http2-dial.ts'
import { Outage } from './outage.ts'
import { SessionActivity } from './session-activity.ts'
import { callUnary } from './unary-stream.ts'

/** A server says this of probes that come too often: https://github.com/grpc/proposal/blob/master/A8-client-side-keepalive.md */
const TOO_MANY_PINGS = Buffer.from('too_many_pings')

export class Http2Channel {
  readonly #clock: Clock
  #keepalive: Keepalive | undefined
  readonly #outage: Outage
  readonly #dial: Dial
  /** Alternating names and values that each call sends. */
  readonly #headers: readonly string[]
  readonly #closing = new AbortController()
  #current: SessionActivity | undefined
  #connecting: Promise<SessionActivity> | undefined
  #waiting: Promise<SessionActivity> | undefined

  /** `environment` can name a proxy. */
  constructor({ target, clock, keepalive, random }: ChannelOptions, environment: NodeJS.ProcessEnv = process.env) {
    this.#clock = clock
    this.#keepalive = keepalive
    this.#outage = new Outage(clock, random)
    this.#dial = dialer(target, clock, environment)
    this.#headers = Object.entries({
      ':method': 'POST',
      ':scheme': target.plaintext ? 'http' : 'https',
      ':authority': target.authority ?? formatHostPort(target),
      'content-type': 'application/grpc',
      te: 'trailers',
      'user-agent': 'livery',
      'grpc-accept-encoding': 'identity',
    }).flat()
  }

  /** Whether the connection survives a failed call, so that only a new channel makes a new connection. */
  get keepsConnection(): boolean {
    return this.#usable !== undefined
  }

  /**
   * Dials again while a caller waits. Resolves once connected, or when the time is up without a known fault.
   * Rejects with a `ServiceError` if the server could not be reached by then, or with the signal's reason.
   */
  async ready(withinMs: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    let isOver = false
    using _timer = after(this.#clock, withinMs, () => {
      isOver = true
      resolve()
    })
    let failure: unknown
    while (!isOver) {
      try {
        await untilAborted(Promise.race([this.#nextSession(), promise]), signal)
        if (!isOver) return
      } catch (error) {
        signal.throwIfAborted()
        // Each further attempt would fail at once, and starve the event loop.
        if (this.#closing.signal.aborted) throw serviceError(status.UNAVAILABLE, 'No connection: the channel is closed')
        failure = error
      }
    }
    if (failure !== undefined) throw failure
  }

  /** Connects first if need be. Rejects with a `ServiceError`, or with the signal's reason. */
  async send(call: ChannelCall, signal: AbortSignal): Promise<Buffer> {
    const activity = this.#usable ?? (await untilAborted(this.#session(), signal))
    activity.begin()
    try {
      const headers = this.#headersOf(call)
      return await callUnary(
        activity.session,
        { headers, message: call.request, maxAnswerBytes: MAX_ANSWER_BYTES },
        signal,
      )
    } finally {
      activity.end()
    }
  }

  /** Call it when no call is open. */
  close(): void {
    this.#closing.abort()
    this.#current?.session.destroy()
  }

  /** A session ends after its open calls once it has received a GOAWAY. */
  get #usable(): SessionActivity | undefined {
    const session = this.#current?.session
    return session && !session.closed && !session.destroyed ? this.#current : undefined
  }

  /** The next session, for callers that wait for an unreachable server. */
  #nextSession(): Promise<SessionActivity> {
    this.#waiting ??= this.#pause()
      .then(() => this.#session())
      .finally(() => {
        this.#waiting = undefined
      })
    return this.#waiting
  }

  /** All calls that need a session share one attempt. */
  async #session(): Promise<SessionActivity> {
    if (this.#usable) return this.#usable
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined
    })
    return await this.#connecting
  }

  async #connect(): Promise<SessionActivity> {
    const { signal } = this.#closing
    try {
      const session = await this.#dial(signal)
      signal.throwIfAborted()
      session.once('goaway', (code, _, data) => this.#onGoaway(code, data))
      this.#outage.ended()
      this.#current = new SessionActivity(session, this.#clock, this.#keepalive)
      return this.#current
    } catch (error) {
      this.#outage.failed()
      throw serviceError(status.UNAVAILABLE, `No connection: ${reasonOf(error)}`)
    }
  }

  async #pause(): Promise<void> {
    const delayMs = this.#outage.delayMs()
    if (delayMs > 0) await sleep(this.#clock, delayMs, this.#closing.signal)
  }

  #onGoaway(code: number, data: Buffer | undefined): void {
    if (this.#keepalive && code === constants.NGHTTP2_ENHANCE_YOUR_CALM && data?.equals(TOO_MANY_PINGS))
      this.#keepalive = { ...this.#keepalive, afterMs: this.#keepalive.afterMs * 2 }
  }

  #headersOf({ path, metadata, timeoutMs }: ChannelCall): readonly string[] {
    const headers = [':path', path].concat(this.#headers)
    if (timeoutMs !== undefined) headers.push('grpc-timeout', `${Math.ceil(timeoutMs)}m`)
    for (const [name, values = []] of Object.entries(metadata.toHttp2Headers())) {
      if (Array.isArray(values)) for (const value of values) headers.push(name, value)
      else headers.push(name, String(values))
    }
    return headers
  }
}
