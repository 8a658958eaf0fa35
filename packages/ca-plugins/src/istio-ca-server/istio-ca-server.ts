/**
 * A CA server that speaks `istio.v1.auth.IstioCertificateService`, as istiod does: what `livery ca` runs.
 * https://github.com/istio/api/blob/master/security/v1alpha1/ca.proto
 */
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js'
import { CAError, type Clock, isSpiffeId, pemToDer, type SpiffeId } from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { reasonOf } from '../answers/reason-of.ts'
import type { IstioCertificateRequest, IstioCertificateResponse } from '../gen/istio/v1/auth/ca.ts'
import type { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import type { ServerNames } from '../plugins/embedded/server-names.ts'
import { muteGrpcLog } from '../transport/grpc-log.ts'
import { formatHostPort, type HostPort, isLoopback, parseHostPort } from '../transport/host-port.ts'
import { IMPERSONATED_IDENTITY, istioCertificateService, metadataText } from '../transport/istio-certificate-service.ts'
import { type Authenticator, type Caller, type CallerCredentials, mayHave } from './authenticators.ts'
import { ServerCertificate } from './server-certificate.ts'

export interface IstioCaServerOptions {
  readonly authority: CertificateAuthority
  /** Asked in this order; the first that knows the caller decides. Without any, every call is refused. */
  readonly authenticators: readonly Authenticator[]
  readonly clock: Clock
  /** `host:port` for TLS, port 0 for a free one; default `127.0.0.1:15012`. */
  readonly listen?: string
  /** `host:port` without encryption, on loopback only (istiod's is port 15010); default: none. */
  readonly plaintextListen?: string
  /** The names of the server's TLS certificate; default `localhost`, `istiod.istio-system.svc`, 127.0.0.1 and ::1. */
  readonly serverNames?: ServerNames
  /** The lifetime of the server's TLS certificate, renewed at its half; default 86,400 (24 h). */
  readonly serverTtlSeconds?: number
  /** The lifetime for callers that ask for none; default 86,400 (24 h). */
  readonly defaultTtlSeconds?: number
  /** How long open calls may continue when the server closes, in milliseconds; default 5000. */
  readonly drainMs?: number
  /** Called whenever a count has gone up. */
  observe?(event: IstioCaServerEvent): void
  warn(message: string): void
}

/** The counters of the server, by istiod's names without `citadel_server_`. */
export type IstioCaServerEvent =
  | 'csr_count'
  | 'authentication_failure_count'
  | 'csr_parsing_err_count'
  | 'csr_sign_err_count'
  | 'success_cert_issuance_count'

type Call = ServerUnaryCall<IstioCertificateRequest, IstioCertificateResponse>

const DEFAULT_NAMES: ServerNames = {
  dnsNames: ['localhost', 'istiod.istio-system.svc'],
  ipAddresses: ['127.0.0.1', '::1'],
}
/** A CSR has some kilobytes. */
const MAX_REQUEST_BYTES = 262_144

/** Serves one {@link CertificateAuthority}. A certificate's URI is the caller's identity, never the CSR's; DNS names come from the CSR if the caller may have them. */
export class IstioCaServer implements AsyncDisposable {
  /** The address of the TLS listener, with the port that it got. */
  readonly address: string
  /** The address of the listener without encryption, if there is one. */
  readonly plaintextAddress: string | undefined
  readonly #server: Server
  readonly #certificate: ServerCertificate
  readonly #handler: CertificateHandler
  readonly #options: IstioCaServerOptions
  #closing: Promise<void> | undefined

  private constructor(started: {
    readonly options: IstioCaServerOptions
    readonly server: Server
    readonly certificate: ServerCertificate
    readonly handler: CertificateHandler
    readonly address: string
    readonly plaintextAddress: string | undefined
  }) {
    this.#options = started.options
    this.#server = started.server
    this.#certificate = started.certificate
    this.#handler = started.handler
    this.address = started.address
    this.plaintextAddress = started.plaintextAddress
  }

  /** Rejects with a `TypeError` for an option it cannot use, and an `Error` with the address that cannot be bound. */
  static async start(options: IstioCaServerOptions): Promise<IstioCaServer> {
    const listen = parseHostPort('listen', options.listen ?? '127.0.0.1:15012')
    const plaintext =
      options.plaintextListen === undefined ? undefined : parseHostPort('plaintextListen', options.plaintextListen)
    if (plaintext && !isLoopback(plaintext.host))
      throw new TypeError(
        `Cannot use plaintextListen ${JSON.stringify(options.plaintextListen)}: tokens would cross the network in the clear. Use a loopback address, or "listen", which has TLS.`,
      )
    const certificate = await ServerCertificate.issue({
      authority: options.authority,
      clock: options.clock,
      names: options.serverNames ?? DEFAULT_NAMES,
      ttlSeconds: options.serverTtlSeconds ?? 86_400,
      warn: options.warn,
    })
    muteGrpcLog()
    // grpc-js 1.14 closes no session in forceShutdown when channelz is off.
    const server = new Server({ 'grpc.max_receive_message_length': MAX_REQUEST_BYTES })
    const handler = new CertificateHandler(options)
    server.addService(istioCertificateService, { createCertificate: handler.handle })
    try {
      const address = await bind(server, listen, certificate.credentials)
      const plaintextAddress = plaintext && (await bind(server, plaintext, ServerCredentials.createInsecure()))
      return new IstioCaServer({ options, server, certificate, handler, address, plaintextAddress })
    } catch (error) {
      certificate[Symbol.dispose]()
      server.forceShutdown()
      throw error
    }
  }

  /** How often each event has happened since the start. */
  get counts(): Readonly<Record<IstioCaServerEvent, number>> {
    return { ...this.#handler.counts }
  }

  /** Takes no new calls, lets the open ones finish within `drainMs`, then cuts them. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#certificate[Symbol.dispose]()
    const { clock, drainMs = 5000 } = this.#options
    using _ = clock.at(clock.now() + drainMs, () => this.#server.forceShutdown())
    await new Promise<void>(resolve => this.#server.tryShutdown(() => resolve()))
  }
}

/** Answers `CreateCertificate`. */
class CertificateHandler {
  readonly counts: Record<IstioCaServerEvent, number> = {
    csr_count: 0,
    authentication_failure_count: 0,
    csr_parsing_err_count: 0,
    csr_sign_err_count: 0,
    success_cert_issuance_count: 0,
  }
  readonly #options: IstioCaServerOptions

  constructor(options: IstioCaServerOptions) {
    this.#options = options
  }

  readonly handle = (call: Call, callback: sendUnaryData<IstioCertificateResponse>): void => {
    this.#createCertificate(call).then(
      certChain => callback(null, { certChain }),
      error => callback(error instanceof Refusal ? error.status : internalError(error, this.#options)),
    )
  }

  async #createCertificate(call: Call): Promise<string[]> {
    this.#count('csr_count')
    const caller = await this.#authenticate(credentialsOf(call))
    const identity = this.#identityFor(caller, metadataText(call.request, IMPERSONATED_IDENTITY))
    try {
      const { chain, root } = await this.#options.authority.sign({
        identity,
        csr: derOf(call.request.csr),
        mayHave: name => mayHave(caller, name),
        ttlSeconds: this.#ttlSeconds(call.request.validityDuration),
        // A certificate that a node requested for a workload cannot be renewed by the workload.
        grant: identity === caller.identity ? caller.grant : undefined,
      })
      this.#count('success_cert_issuance_count')
      // The signing root comes last: Istio's agent takes the last one for the root.
      const others = this.#options.authority.trustBundle().filter(each => each !== root)
      return [...chain, ...others, root]
    } catch (error) {
      if (!(error instanceof CAError)) throw error
      this.#count(error.code === 'invalid-csr' ? 'csr_parsing_err_count' : 'csr_sign_err_count')
      throw new Refusal(grpcCodeOf(error), error.message)
    }
  }

  async #authenticate(credentials: CallerCredentials): Promise<Caller> {
    let failure: CAError | undefined
    for (const authenticator of this.#options.authenticators) {
      try {
        const caller = await authenticator.authenticate(credentials)
        if (caller) return caller
      } catch (error) {
        if (!(error instanceof CAError)) throw error
        failure = error
      }
    }
    this.#count('authentication_failure_count')
    if (failure) {
      this.#options.warn(failure.message)
      throw new Refusal(status.UNAVAILABLE, 'the caller cannot be authenticated now')
    }
    throw new Refusal(status.UNAUTHENTICATED, 'request authenticate failure')
  }

  #identityFor(caller: Caller, wanted: string | undefined): SpiffeId {
    if (wanted === undefined || wanted === '') return caller.identity
    if (isSpiffeId(wanted) && caller.impersonates?.has(wanted)) return wanted
    this.#count('authentication_failure_count')
    throw new Refusal(status.UNAUTHENTICATED, 'request impersonation authentication failure')
  }

  #ttlSeconds(validityDuration: bigint): number {
    return validityDuration > 0n ? Number(validityDuration) : (this.#options.defaultTtlSeconds ?? 86_400)
  }

  #count(event: IstioCaServerEvent): void {
    this.counts[event]++
    this.#options.observe?.(event)
  }
}

class Refusal extends Error {
  readonly status: { readonly code: status; readonly details: string }

  constructor(code: status, details: string) {
    super(details)
    this.status = { code, details }
  }
}

function internalError(error: unknown, options: IstioCaServerOptions): { code: status; details: string } {
  options.warn(`Cannot answer a certificate request: ${reasonOf(error)}`)
  return { code: status.INTERNAL, details: 'internal error' }
}

function grpcCodeOf({ code }: CAError): status {
  if (code === 'invalid-csr' || code === 'ttl-too-long') return status.INVALID_ARGUMENT
  return code === 'denied' ? status.PERMISSION_DENIED : status.INTERNAL
}

function credentialsOf(call: Call): CallerCredentials {
  const [, bearerToken] = /^bearer +(\S+)$/i.exec(String(call.metadata.get('authorization')[0] ?? '')) ?? []
  const clientCertificate = call.getAuthContext().sslPeerCertificate?.raw
  return { ...(bearerToken !== undefined && { bearerToken }), ...(clientCertificate && { clientCertificate }) }
}

function derOf(csr: string): Uint8Array {
  try {
    return pemToDer(csr)
  } catch (error) {
    throw caError('invalid-csr', {
      action: 'sign the certificate request',
      reason: 'it is not PEM',
      remedy: 'Send a new one',
      cause: error,
    })
  }
}

async function bind(server: Server, at: HostPort, credentials: ServerCredentials): Promise<string> {
  const wanted = formatHostPort(at)
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.bindAsync(wanted, credentials, (error, port) => (error ? reject(error) : resolve(port)))
  try {
    return formatHostPort({ host: at.host, port: await promise })
  } catch (error) {
    // The text of grpc-js counts addresses.
    const isTaken = reasonOf(error).includes('EADDRINUSE')
    const reason = isTaken ? 'another process has this port (EADDRINUSE)' : reasonOf(error)
    throw new Error(
      `Cannot serve the CA on ${wanted}: ${reason}. Stop whatever listens there, or name another address.`,
      { cause: error },
    )
  }
}
