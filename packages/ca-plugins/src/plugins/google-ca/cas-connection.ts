/** One connection to Certificate Authority Service, through Google's client library. */
import type { CertificateAuthorityServiceClient, protos } from '@google-cloud/security-private-ca'
import * as grpc from '@grpc/grpc-js'
import { type TlsMaterial, untilAborted } from '@livery/core'
import type { Connection } from '../../transport/current-connection.ts'
import type { GoogleEndpoint } from './google-ca-config.ts'
import { CHANNEL_OPTIONS, channelCredentials } from './google-channel.ts'
import type { GooglePackages } from './google-packages.ts'

export type CreateCertificateRequest = protos.google.cloud.security.privateca.v1.ICreateCertificateRequest
export type Certificate = protos.google.cloud.security.privateca.v1.ICertificate
export type CaCertificates = protos.google.cloud.security.privateca.v1.IFetchCaCertsResponse

/** Who calls, and until when. */
export interface CasCall {
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/** Those of the library that are used here. */
interface CallOptions {
  readonly timeout: number
  readonly retry: null
  readonly otherArgs: Record<string, unknown>
}

/** The library sets a deadline on every call: this one is later than any that core does. */
const BACKSTOP_MS = 600_000

/** Its methods reject with the library's error, or with the signal's reason. */
export class CasConnection implements Connection {
  readonly #client: CertificateAuthorityServiceClient

  constructor(
    privateCa: Awaited<ReturnType<GooglePackages['privateCa']>>,
    endpoint: GoogleEndpoint,
    material: TlsMaterial,
  ) {
    this.#client = new privateCa.CertificateAuthorityServiceClient({
      ...CHANNEL_OPTIONS,
      // Ours, so that the credentials below are of the same module.
      grpc,
      apiEndpoint: endpoint.host.includes(':') ? `[${endpoint.host}]` : endpoint.host,
      port: endpoint.port,
      sslCreds: channelCredentials(endpoint, material),
      // With both given the library looks for no credentials of its own: calls bring theirs.
      universeDomain: 'googleapis.com',
    })
  }

  createCertificate(request: CreateCertificateRequest, call: CasCall): Promise<Certificate> {
    return this.#call(call, options => this.#client.createCertificate(request, options))
  }

  fetchCaCerts(caPool: string, call: CasCall): Promise<CaCertificates> {
    return this.#call(call, options => this.#client.fetchCaCerts({ caPool }, options))
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  async #call<T>({ headers, signal }: CasCall, send: (options: CallOptions) => Promise<[T, ...unknown[]]>): Promise<T> {
    // A method that found this failing would leave a rejection that nobody handles.
    await untilAborted(this.#client.initialize(), signal)
    signal.throwIfAborted()
    const intercepted = new InterceptedCall(signal)
    const sending = send({
      timeout: BACKSTOP_MS,
      retry: null,
      otherArgs: { headers: { ...headers }, options: { interceptors: [intercepted.interceptor] } },
    })
    try {
      const [response] = await untilAborted(sending, signal)
      return response
    } catch (error) {
      throw intercepted.withMetadata(error)
    } finally {
      // The promises of the library's methods cannot be cancelled; without effect once the call has ended.
      intercepted.cancel()
    }
  }
}

/** Reaches the gRPC call under a method of the library. */
class InterceptedCall {
  readonly interceptor: grpc.Interceptor
  #call: grpc.InterceptingCall | undefined
  #metadata: grpc.Metadata | undefined

  constructor(signal: AbortSignal) {
    const requester = new grpc.RequesterBuilder().withStart((metadata, _, next) => next(metadata, this.#listener()))
    this.interceptor = (options, next) => {
      signal.throwIfAborted()
      this.#call = new grpc.InterceptingCall(next(options), requester.build())
      return this.#call
    }
  }

  cancel(): void {
    this.#call?.cancelWithStatus(grpc.status.CANCELLED, 'nobody waits for it any more')
  }

  /** `error` with the metadata that came with its status. */
  withMetadata(error: unknown): unknown {
    return error instanceof Error && this.#metadata ? Object.assign(error, { metadata: this.#metadata }) : error
  }

  /** Keeps the details of a status from the library, which decodes them in 10 ms of the event loop each time. */
  #listener(): grpc.Listener {
    return new grpc.ListenerBuilder()
      .withOnReceiveStatus((received, next) => {
        this.#metadata = received.metadata
        next({ ...received, metadata: new grpc.Metadata() })
      })
      .build()
  }
}
