/** One gRPC connection to a CA, and unary calls on it. */
import { checkServerIdentity } from 'node:tls'
import {
  ChannelCredentials,
  type ChannelOptions,
  Client,
  type ClientUnaryCall,
  type Metadata,
  status,
} from '@grpc/grpc-js'
import { after, type Clock, type Deadline, type TlsMaterial, untilAborted, withDeadline } from '@livery/core'
import type { Connection } from './current-connection.ts'
import { isStatus } from './grpc-status.ts'

export interface GrpcConnectionOptions {
  /** The name that gRPC resolves: `dns:///ca.example:443`. */
  readonly uri: string
  /** The name that the server's certificate must carry. */
  readonly serverName: string
  /** Whether the connection goes without TLS. */
  readonly plaintext: boolean
  readonly material: TlsMaterial
  readonly clock: Clock
  /** Over {@link CHANNEL_OPTIONS}. */
  readonly channel?: ChannelOptions
}

export interface UnaryCall {
  /** `/package.Service/Method`. */
  readonly path: string
  readonly request: Uint8Array
  readonly metadata: Metadata
  readonly signal: AbortSignal
  /**
   * How long to wait for the connection before the call, milliseconds; without one it fails then as it would have at once.
   * Default: no wait.
   */
  readonly connectWithinMs?: number | undefined
  /** By our own clock: gRPC's deadline reads the machine's. Default: the signal alone ends the call. */
  readonly deadline?: Omit<Deadline, 'signal' | 'clock'>
}

/** A chain of ten large certificates, several times over. */
const MAX_ANSWER_BYTES = 1_048_576

/** A separate connection for each channel, so that a new channel is a new connection; gRPC itself never retries. */
export const CHANNEL_OPTIONS: ChannelOptions = {
  'grpc.max_receive_message_length': MAX_ANSWER_BYTES,
  'grpc.enable_retries': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.initial_reconnect_backoff_ms': 500,
  // While a channel waits, calls fail at once: a CA that is back is found no sooner. Core bounds the calls.
  'grpc.max_reconnect_backoff_ms': 500,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_channelz': 0,
}

/** Of calls in a row. gRPC itself resolves the name of a server that cannot be reached every 30 s. */
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
  readonly #clock: Clock
  readonly #client: Client
  #failures = 0
  #becomingReady: Promise<void> | undefined

  constructor({ uri, channel, ...options }: GrpcConnectionOptions) {
    this.material = options.material
    this.#clock = options.clock
    this.#client = new Client(uri, channelCredentials(options), { ...CHANNEL_OPTIONS, ...channel })
  }

  /** Whether so many calls failed in a row that a new connection should be tried: it resolves the name again. */
  get isWorn(): boolean {
    return this.#failures >= MAX_FAILURES
  }

  /**
   * Bytes to bytes, so that the caller can distinguish a bad answer from a broken connection. Rejects with a `ServiceError`, the
   * deadline's error, or the signal's reason.
   */
  async call(call: UnaryCall): Promise<Buffer> {
    const { signal, deadline, connectWithinMs } = call
    if (connectWithinMs !== undefined) await this.#connected(connectWithinMs, signal)
    try {
      const answer = deadline
        ? await withDeadline({ ...deadline, clock: this.#clock, signal }, ending => this.#send(call, ending))
        : await this.#send(call, signal)
      this.#failures = 0
      return answer
    } catch (error) {
      // A call that its caller has aborted says nothing about the connection.
      if (!signal.aborted) this.#failures = isBroken(error) ? this.#failures + 1 : 0
      throw error
    }
  }

  /** The channel connects on its own, about every half second. */
  async #connected(withinMs: number, signal: AbortSignal): Promise<void> {
    const { promise: isOver, resolve } = Promise.withResolvers<void>()
    using _timer = after(this.#clock, withinMs, resolve)
    await untilAborted(Promise.race([this.#ready(), isOver]), signal)
  }

  /** Resolves also when the channel is closed. One for all calls: gRPC would keep each until the channel changes. */
  #ready(): Promise<void> {
    this.#becomingReady ??= new Promise(resolve => {
      this.#client.waitForReady(Number.POSITIVE_INFINITY, () => {
        this.#becomingReady = undefined
        resolve()
      })
    })
    return this.#becomingReady
  }

  close(): void {
    this.#client.close()
  }

  async #send({ path, request, metadata }: UnaryCall, signal: AbortSignal): Promise<Buffer> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
    const call: ClientUnaryCall = this.#client.makeUnaryRequest(
      path,
      (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
      bytes => bytes,
      request,
      metadata,
      (error, bytes) => (error ? reject(error) : resolve(bytes ?? Buffer.alloc(0))),
    )
    const onAbort = () => {
      reject(signal.reason)
      call.cancel()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }
}

function isBroken(error: unknown): boolean {
  return !isStatus(error) || RECONNECTABLE.has(error.code)
}

function channelCredentials({
  plaintext,
  serverName,
  material: { roots, clientCertificate },
}: Pick<GrpcConnectionOptions, 'plaintext' | 'serverName' | 'material'>): ChannelCredentials {
  if (plaintext) return ChannelCredentials.createInsecure()
  const { key = null, certificate = null } = clientCertificate ?? {}
  return ChannelCredentials.createSsl(roots ?? null, key, certificate, {
    checkServerIdentity: (_, peer) => checkServerIdentity(serverName, peer),
  })
}
