/** One gRPC connection to a CA, and unary calls on it. */
import { status } from '@grpc/grpc-js'
import { after, type TlsMaterial } from '@livery/core/plugin'
import type { Connection } from './current-connection.ts'
import type { ChannelCall, ChannelOptions } from './grpc-channel.ts'
import { isStatus } from './grpc-status.ts'
import { Http2Channel } from './http2-channel.ts'

interface UnaryCall extends Omit<ChannelCall, 'timeoutMs'> {
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
  /** How long the call may take, without the wait for its connection, milliseconds. */
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

export class GrpcConnection implements Connection {
  readonly material: TlsMaterial
  readonly #clock: ChannelOptions['clock']
  readonly #channel: Http2Channel
  #failures = 0

  constructor(options: ChannelOptions) {
    this.material = options.target.material
    this.#clock = options.clock
    this.#channel = new Http2Channel(options)
  }

  /** Whether enough calls failed in a row to try a new connection, which resolves the name again. */
  get isWorn(): boolean {
    return this.#failures >= MAX_FAILURES
  }

  /**
   * Takes and returns bytes, so that the caller can distinguish a bad answer from a broken connection. Rejects with a `ServiceError`, the
   * deadline's error, or the signal's reason.
   */
  async call({ path, request, metadata, signal, connectWithinMs, deadline }: UnaryCall): Promise<Buffer> {
    if (connectWithinMs !== undefined) await this.#channel.ready(connectWithinMs, signal)
    let isLate = false
    using _timer =
      deadline &&
      after(this.#clock, deadline.ms, () => {
        isLate = !signal.aborted
        deadline.expire()
      })
    try {
      const answer = await this.#channel.send({ path, request, metadata, timeoutMs: deadline?.ms }, signal)
      this.#failures = 0
      return answer
    } catch (error) {
      // A call that its caller aborted says nothing about the connection.
      if (isLate || !signal.aborted)
        this.#failures = isBroken(error) && this.#channel.keepsConnection ? this.#failures + 1 : 0
      throw error
    }
  }

  close(): void {
    this.#channel.close()
  }
}

function isBroken(error: unknown): boolean {
  return !isStatus(error) || RECONNECTABLE.has(error.code)
}
