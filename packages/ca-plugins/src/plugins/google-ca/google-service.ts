/** Calls to one of Google's CAs: authenticated, over one connection that is made again when its files change. */
import { type ServiceError, status } from '@grpc/grpc-js'
import {
  type CAContext,
  type CAErrorCode,
  type CertificateRequest,
  type SpiffeId,
  untilAborted,
} from '@livery/core/plugin'
import { certificateRemedy } from '../../answers/certificate-failure.ts'
import { Closable } from '../../transport/closable.ts'
import { CurrentConnection, systemRoots } from '../../transport/current-connection.ts'
import { GrpcConnection, headerList } from '../../transport/grpc-connection.ts'
import { caErrorOfStatus, isStatus } from '../../transport/grpc-status.ts'
import type { GoogleEndpoint } from './config.ts'
import type { Authentication } from './google-authentication.ts'

/** The parts of a client of one of the CAs. */
export interface GoogleClientParts<Target> {
  readonly target: Target
  readonly clock: CAContext['clock']
  readonly tls: CAContext['tls']
  readonly authentication: Authentication
}

interface GoogleServiceOptions extends Omit<GoogleClientParts<never>, 'target'> {
  /** The CA's name in errors: `Mesh CA at …`. */
  readonly ca: string
  readonly endpoint: GoogleEndpoint
  /** The remedies for a caller without the right, and for a resource that does not exist. */
  readonly remedies: { readonly denied: string; readonly notFound: string }
}

interface GoogleCall {
  /** Follows "Cannot" in errors: `get a certificate for … from …`. */
  readonly action: string
  /** `/package.Service/Method`. */
  readonly path: string
  /** Resolves with the bytes of the request. */
  readonly encode: () => Promise<Uint8Array>
  /** Tells Google the region of the call: `parent=projects%2F…`. */
  readonly routing?: string | undefined
  /** Absent: the call is for no single workload. */
  readonly identity?: SpiffeId
  readonly tokenFile?: string | undefined
  /** See {@link CertificateRequest.connectWithinMs}. */
  readonly connectWithinMs?: CertificateRequest['connectWithinMs'] | undefined
  readonly signal: AbortSignal
}

/** A dead connection is noticed within 30 s while a call waits on it. */
const KEEPALIVE = { afterMs: 20_000, timeoutMs: 10_000 }

/** These last until somebody changes the pool: the call is made again at the longest backoff. */
const LASTING: ReadonlySet<status> = new Set([status.NOT_FOUND, status.FAILED_PRECONDITION, status.UNIMPLEMENTED])

export class GoogleService implements AsyncDisposable {
  readonly #options: GoogleServiceOptions
  readonly #connection: CurrentConnection<GrpcConnection>
  readonly #closing: Closable

  constructor(options: GoogleServiceOptions) {
    const { clock, endpoint } = options
    const { plaintext, host, port } = endpoint
    this.#options = options
    this.#closing = new Closable(options.ca)
    this.#connection = new CurrentConnection(
      (plaintext ? undefined : options.tls) ?? systemRoots,
      material =>
        new GrpcConnection({
          target: { host, port, serverName: host, plaintext, material },
          clock,
          keepalive: KEEPALIVE,
        }),
    )
  }

  /** Resolves with the answer's bytes. Rejects with a `CAError`, or with the signal's reason. */
  async call({
    action,
    path,
    encode,
    routing,
    identity,
    tokenFile,
    connectWithinMs,
    ...call
  }: GoogleCall): Promise<Buffer> {
    const { authentication } = this.#options
    using open = this.#closing.begin(call.signal)
    const { signal } = open.ending
    const request = await untilAborted(encode(), signal)
    const credentials = await authentication.authenticate({
      signal,
      ...(identity !== undefined && { identity }),
      ...(tokenFile !== undefined && { tokenFile }),
    })
    const params = routing !== undefined && { 'x-goog-request-params': routing }
    const headers = headerList({ ...credentials.headers, ...params })
    try {
      return await untilAborted(
        this.#connection.use(connection => connection.call({ path, request, headers, signal, connectWithinMs })),
        signal,
      )
    } catch (error) {
      if (!isStatus(error)) throw error
      const { secrets } = credentials
      const remedyOf = (code: CAErrorCode) => this.#remedyOf(code, error)
      const failure = caErrorOfStatus(error, { action, secrets, remedyOf, lasting: LASTING })
      if (failure.code === 'unauthenticated') authentication.forget()
      throw failure
    }
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    this.#options.authentication[Symbol.dispose]()
    await this.#connection[Symbol.asyncDispose]()
  }

  #remedyOf(code: CAErrorCode, error: ServiceError): string {
    const { authentication, remedies } = this.#options
    switch (code) {
      case 'unauthenticated':
        return authentication.remedy
      case 'denied':
        return remedies.denied
      case 'invalid-csr':
        return 'Use a key type and names that the issuance policy and the template allow'
      case 'ttl-too-long':
        return 'Ask for a shorter ttl, or raise the maximum lifetime of the issuance policy and the template'
      case 'rate-limited':
        return 'Livery retries later; raise the quota if this lasts'
      case 'bad-response':
        return 'Check the endpoint'
      default:
        return error.code === status.NOT_FOUND ? remedies.notFound : unavailableRemedy(error)
    }
  }
}

function unavailableRemedy(error: ServiceError): string {
  switch (error.code) {
    case status.FAILED_PRECONDITION:
      return 'Enable the CA pool and at least one CA in it'
    case status.ALREADY_EXISTS:
      return 'It is asked again, with a new key'
    case status.UNIMPLEMENTED:
      return "Check the endpoint: this server is not a CA of Google's"
    default:
      return certificateRemedy(error.details, 'rootCert') ?? 'Check the endpoint and the network; it is asked again'
  }
}
