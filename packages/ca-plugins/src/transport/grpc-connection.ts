/** Unary gRPC calls to a CA over one HTTP/2 session, which is dialled on demand and again after a loss. */
import { constants } from 'node:http2'
import { status } from '@grpc/grpc-js'
import { after, type Clock, sleep, type TlsMaterial, untilAborted } from '@livery/core/plugin'
import { reasonOf } from '../answers/reason-of.ts'
import type { Connection } from './current-connection.ts'
import { isStatus, serviceError } from './grpc-status.ts'
import { formatHostPort } from './host-port.ts'
import { type ChannelTarget, type Dial, dialer } from './http2-dial.ts'
import { Outage } from './outage.ts'
import { type Keepalive, SessionActivity } from './session-activity.ts'
import { callUnary } from './unary-stream.ts'

interface ConnectionSettings {
  readonly target: ChannelTarget
  readonly clock: Clock
  /** Default: no probes. */
  readonly keepalive?: Keepalive | undefined
  /** A number in [0, 1). Default: `Math.random`. */
  readonly random?: () => number
}

export interface UnaryCall {
  /** `/package.Service/Method`. */
  readonly path: string
  readonly request: Uint8Array
  /** Alternating names, in lower case, and values. */
  readonly headers: readonly string[]
  readonly signal: AbortSignal
  /**
   * How long to wait for a connection before the call, milliseconds; then the call fails as it would have at once.
   * Default: no wait.
   */
  readonly connectWithinMs?: number | undefined
  /** A deadline by our own clock: gRPC's deadline reads the machine's. Default: the signal alone ends the call. */
  readonly deadline?: CallDeadline
}

interface CallDeadline {
  /** How long the call may take, without the wait for its connection, milliseconds; the server gets it, too. */
  readonly ms: number
  /** Called after that time: aborts the signal of the call. */
  readonly expire: () => void
}

/** The failures in a row that a connection may have. */
const MAX_FAILURES = 2

/** Statuses that a new connection may avoid. */
const RECONNECTABLE: ReadonlySet<status> = new Set([
  status.UNAVAILABLE,
  status.CANCELLED,
  status.DEADLINE_EXCEEDED,
  status.INTERNAL,
  status.UNKNOWN,
])

/** A server says this of probes that come too often: https://github.com/grpc/proposal/blob/master/A8-client-side-keepalive.md */
const TOO_MANY_PINGS = Buffer.from('too_many_pings')

export class GrpcConnection implements Connection {
  readonly material: TlsMaterial
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
  #failures = 0

  /** `environment` can name a proxy. */
  constructor({ target, clock, keepalive, random }: ConnectionSettings, environment: NodeJS.ProcessEnv = process.env) {
    this.material = target.material
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

  /** Whether enough calls failed in a row to try a new connection, which resolves the name again. */
  get isWorn(): boolean {
    return this.#failures >= MAX_FAILURES
  }

  /**
   * Connects first if need be. Takes and returns bytes, so that the caller can distinguish a bad answer from a broken
   * connection. Rejects with a `ServiceError`, the deadline's error, or the signal's reason.
   */
  async call(call: UnaryCall): Promise<Buffer> {
    const { signal, connectWithinMs, deadline } = call
    if (connectWithinMs !== undefined) await this.#ready(connectWithinMs, signal)
    let isLate = false
    using _timer =
      deadline &&
      after(this.#clock, deadline.ms, () => {
        isLate = !signal.aborted
        deadline.expire()
      })
    try {
      const answer = await this.#send(call)
      this.#failures = 0
      return answer
    } catch (error) {
      // A call that its caller aborted says nothing about the connection, and a lost session is dialled again anyway.
      if (isLate || !signal.aborted) this.#failures = isBroken(error) && this.#usable ? this.#failures + 1 : 0
      throw error
    }
  }

  /** Call it when no call is open. */
  close(): void {
    this.#closing.abort()
    this.#current?.session.destroy()
  }

  /**
   * Dials again while a caller waits. Resolves once connected, or when the time is up without a known fault.
   * Rejects with a `ServiceError` if the server could not be reached by then, or with the signal's reason.
   */
  async #ready(withinMs: number, signal: AbortSignal): Promise<void> {
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

  async #send(call: UnaryCall): Promise<Buffer> {
    const { request, signal } = call
    const activity = this.#usable ?? (await untilAborted(this.#session(), signal))
    activity.begin()
    try {
      return await callUnary(activity.session, this.#headersOf(call), request, signal)
    } finally {
      activity.end()
    }
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

  #headersOf({ path, headers, deadline }: UnaryCall): readonly string[] {
    const all = [':path', path].concat(this.#headers, headers)
    if (deadline) all.push('grpc-timeout', `${Math.ceil(deadline.ms)}m`)
    return all
  }
}

/** Headers as {@link UnaryCall} has them. */
export function headerList(headers: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(headers).flatMap(([name, value]) => [name.toLowerCase(), value])
}

function isBroken(error: unknown): boolean {
  return !isStatus(error) || RECONNECTABLE.has(error.code)
}
