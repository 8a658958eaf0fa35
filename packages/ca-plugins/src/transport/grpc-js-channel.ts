/** Unary calls through grpc-js: for what our own session does not do, which is what the environment asks of grpc-js. */
import { checkServerIdentity } from 'node:tls'
import { ChannelCredentials, Client, type ClientUnaryCall } from '@grpc/grpc-js'
import { after, type Clock, untilAborted } from '@livery/core'
import {
  type ChannelCall,
  type ChannelOptions,
  type ChannelTarget,
  type GrpcChannel,
  MAX_ANSWER_BYTES,
} from './grpc-channel.ts'
import { formatHostPort } from './host-port.ts'

const PROXIES = ['grpc_proxy', 'https_proxy', 'http_proxy']

/** Whether the environment asks of grpc-js what our own session does not do: a proxy, or ciphers or roots beside the configuration. */
export function needsGrpcJs(
  { plaintext, material }: Pick<ChannelTarget, 'plaintext' | 'material'>,
  environment: NodeJS.ProcessEnv,
): boolean {
  if (PROXIES.some(name => Boolean(environment[name]))) return true
  if (plaintext) return false
  const { GRPC_SSL_CIPHER_SUITES: ciphers, GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: defaultRoots } = environment
  return Boolean(ciphers) || (Boolean(defaultRoots) && material.roots === undefined)
}

/** A separate connection for each channel, so that a new channel is a new connection; gRPC itself never retries. */
const CHANNEL_OPTIONS = {
  'grpc.max_receive_message_length': MAX_ANSWER_BYTES,
  'grpc.enable_retries': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.initial_reconnect_backoff_ms': 500,
  // While a channel waits, calls fail at once: a CA that is back is found no sooner. Core bounds the calls.
  'grpc.max_reconnect_backoff_ms': 500,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_channelz': 0,
}

export class GrpcJsChannel implements GrpcChannel {
  /** It does not say, and resolves the name of a server that cannot be reached every 30 s only. */
  readonly keepsConnection = true
  readonly #clock: Clock
  readonly #client: Client
  #becomingReady: Promise<void> | undefined

  constructor({ target, clock, keepalive }: ChannelOptions) {
    const { host, port, authority, sentName, plaintext } = target
    this.#clock = clock
    this.#client = new Client(`dns:///${formatHostPort({ host, port })}`, channelCredentials(target), {
      ...CHANNEL_OPTIONS,
      ...(authority !== undefined && { 'grpc.default_authority': authority }),
      ...(sentName !== undefined && !plaintext && { 'grpc.ssl_target_name_override': sentName }),
      ...(keepalive && {
        'grpc.keepalive_time_ms': keepalive.afterMs,
        'grpc.keepalive_timeout_ms': keepalive.timeoutMs,
      }),
    })
  }

  /** The channel connects on its own, about every half second; a call knows why it could not. */
  async ready(withinMs: number, signal: AbortSignal): Promise<void> {
    const { promise: isOver, resolve } = Promise.withResolvers<void>()
    using _timer = after(this.#clock, withinMs, resolve)
    await untilAborted(Promise.race([this.#connected(), isOver]), signal)
  }

  async send({ path, request, metadata }: ChannelCall, signal: AbortSignal): Promise<Buffer> {
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

  close(): void {
    this.#client.close()
  }

  /** Resolves also when the channel is closed. One for all calls: gRPC would keep each until the channel changes. */
  #connected(): Promise<void> {
    this.#becomingReady ??= new Promise(resolve => {
      this.#client.waitForReady(Number.POSITIVE_INFINITY, () => {
        this.#becomingReady = undefined
        resolve()
      })
    })
    return this.#becomingReady
  }
}

function channelCredentials({
  plaintext,
  serverName,
  material: { roots, clientCertificate },
}: ChannelTarget): ChannelCredentials {
  if (plaintext) return ChannelCredentials.createInsecure()
  const { key = null, certificate = null } = clientCertificate ?? {}
  return ChannelCredentials.createSsl(roots ?? null, key, certificate, {
    checkServerIdentity: (_, peer) => checkServerIdentity(serverName, peer),
  })
}
