/** One gRPC channel to an Istio CA, with the roots and the client certificate that it was made with. */
import { isIP } from 'node:net'
import { checkServerIdentity } from 'node:tls'
import {
  ChannelCredentials,
  Client,
  type ClientUnaryCall,
  type Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import type { Clock, TlsMaterial } from '@livery/core'
import { CREATE_CERTIFICATE } from '../../transport/istio-certificate-service.ts'
import type { CitadelTarget } from './citadel-config.ts'

export interface ChannelOptions {
  readonly target: CitadelTarget
  readonly serverName: string | undefined
  readonly material: TlsMaterial
  readonly clock: Clock
  readonly timeoutMs: number
}

/** How a call ended. Never a rejection but for an aborted signal. */
export type CallResult =
  | { readonly kind: 'answer'; readonly bytes: Buffer }
  | { readonly kind: 'status'; readonly error: ServiceError }
  | { readonly kind: 'timeout' }

const MAX_ANSWER_BYTES = 1_048_576
/** Then a new channel is made, which resolves the name again and waits for no backoff. */
const MAX_FAILURES = 2
/** What a new connection may mend. */
const RECONNECTABLE: ReadonlySet<status> = new Set([
  status.UNAVAILABLE,
  status.CANCELLED,
  status.DEADLINE_EXCEEDED,
  status.INTERNAL,
  status.UNKNOWN,
])

export class CitadelChannel {
  readonly material: TlsMaterial
  readonly #client: Client
  readonly #clock: Clock
  readonly #timeoutMs: number
  #failures = 0
  #calls = 0
  #retired = false

  constructor({ target, serverName, material, clock, timeoutMs }: ChannelOptions) {
    this.material = material
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#client = new Client(target.uri, credentialsOf(target, material, serverName), {
      'grpc.max_receive_message_length': MAX_ANSWER_BYTES,
      'grpc.enable_retries': 0,
      'grpc.service_config_disable_resolution': 1,
      'grpc.initial_reconnect_backoff_ms': 500,
      'grpc.max_reconnect_backoff_ms': 10_000,
      // A connection of its own, so that a new channel is a new connection.
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_channelz': 0,
      ...(serverName !== undefined && { 'grpc.default_authority': serverName }),
      ...(!target.plaintext && { 'grpc.ssl_target_name_override': serverName ?? tlsNameOf(target) }),
    })
  }

  /** Whether calls have failed so often in a row that a new channel should be tried. */
  get isWorn(): boolean {
    return this.#failures >= MAX_FAILURES
  }

  /** Rejects only with the signal's reason. */
  async createCertificate(request: Buffer, metadata: Metadata, signal: AbortSignal): Promise<CallResult> {
    this.#calls++
    try {
      const result = await this.#call(request, metadata, signal)
      this.#failures = isFailure(result) ? this.#failures + 1 : 0
      return result
    } finally {
      this.#calls--
      this.#closeIfDone()
    }
  }

  /** Closes the connection once the open calls have ended, and those that were just handed this channel. */
  retire(): void {
    this.#retired = true
    setImmediate(() => this.#closeIfDone())
  }

  #closeIfDone(): void {
    if (this.#retired && this.#calls === 0) this.#client.close()
  }

  async #call(request: Buffer, metadata: Metadata, signal: AbortSignal): Promise<CallResult> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<CallResult>()
    const call: ClientUnaryCall = this.#client.makeUnaryRequest(
      CREATE_CERTIFICATE,
      passThrough,
      passThrough,
      request,
      metadata,
      (error, bytes) =>
        resolve(error ? { kind: 'status', error } : { kind: 'answer', bytes: bytes ?? Buffer.alloc(0) }),
    )
    const onAbort = () => {
      reject(signal.reason)
      call.cancel()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    // Our own clock instead of gRPC's deadline, which reads the machine's.
    using _ = this.#clock.at(this.#clock.now() + this.#timeoutMs, () => {
      resolve({ kind: 'timeout' })
      call.cancel()
    })
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }
}

/** Bytes are decoded by the plugin, so that a bad answer is told from a broken connection. */
function passThrough(bytes: Buffer): Buffer {
  return bytes
}

function isFailure(result: CallResult): boolean {
  return result.kind === 'timeout' || (result.kind === 'status' && RECONNECTABLE.has(result.error.code))
}

function credentialsOf(
  { plaintext, host }: CitadelTarget,
  { roots, clientCertificate }: TlsMaterial,
  serverName: string | undefined,
): ChannelCredentials {
  if (plaintext) return ChannelCredentials.createInsecure()
  return ChannelCredentials.createSsl(
    roots ?? null,
    clientCertificate?.key ?? null,
    clientCertificate?.certificate ?? null,
    {
      checkServerIdentity: (_, certificate) => checkServerIdentity(serverName ?? host, certificate),
    },
  )
}

/** TLS has no addresses for names (RFC 6066, section 3), and Node warns of them: istiod's usual name goes instead. */
function tlsNameOf({ host }: CitadelTarget): string {
  return isIP(host) ? 'istiod.istio-system.svc' : host
}
