/** A {@link CAClient} for Mesh CA, Google's CA for Istio before Certificate Authority Service, spoken to as Istio 1.9 did. */
import { Metadata } from '@grpc/grpc-js'
import {
  type CAClient,
  type CAContext,
  type CertificateRequest,
  type CertificateSigningRequest,
  type IssuedCertificate,
  untilAborted,
} from '@livery/core'
import { type Answer, badAnswer, ChainReader } from '../../answers/certificate-chain.ts'
import { MeshCertificateRequest, MeshCertificateResponse } from '../../gen/google/security/meshca/v1/meshca.ts'
import { Closable } from '../../transport/closable.ts'
import { CurrentConnection } from '../../transport/current-connection.ts'
import type { Authentication, CallCredentials } from './google-authentication.ts'
import type { MeshCaTarget } from './google-ca-config.ts'
import { errorOfStatus, isStatus } from './google-error.ts'
import { MeshCaConnection } from './mesh-ca-connection.ts'
import { requestId } from './request-id.ts'

export interface MeshCaParts {
  readonly target: MeshCaTarget
  readonly tls: CAContext['tls']
  readonly authentication: Authentication
}

/** Its roots are known by its chains only. */
export class MeshCaClient implements CAClient {
  readonly #target: MeshCaTarget
  readonly #authentication: Authentication
  readonly #chains = new ChainReader()
  readonly #connection: CurrentConnection<MeshCaConnection>
  readonly #closing: Closable

  constructor({ target, tls, authentication }: MeshCaParts) {
    this.#target = target
    this.#closing = new Closable(`Mesh CA at ${target.endpoint.address}`)
    this.#authentication = authentication
    this.#connection = new CurrentConnection(
      target.endpoint.plaintext ? undefined : tls,
      material => new MeshCaConnection(target.endpoint, material),
    )
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const action = `get a certificate for ${request.identity} from Mesh CA at ${this.#target.endpoint.address}`
    const signal = this.#closing.until(request.signal)
    const csr = await untilAborted(request.csr(), signal)
    const { tokenFile } = request
    const credentials = await this.#authentication.authenticate({
      signal,
      ...(tokenFile !== undefined && { tokenFile }),
    })
    const bytes = await this.#send(action, encode(request, csr), credentials, signal)
    return this.#issued(bytes, { action, remedy: 'Check the endpoint' })
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    this.#authentication[Symbol.dispose]()
    await this.#connection[Symbol.asyncDispose]()
  }

  async #send(action: string, request: Buffer, credentials: CallCredentials, signal: AbortSignal): Promise<Buffer> {
    const metadata = this.#metadata(credentials)
    try {
      return await untilAborted(
        this.#connection.use(connection => connection.createCertificate(request, metadata, signal)),
        signal,
      )
    } catch (error) {
      if (!isStatus(error)) throw error
      const failure = errorOfStatus(error, {
        action,
        secrets: credentials.secrets,
        remedies: {
          unauthenticated: this.#authentication.remedy,
          denied: "Let the caller use Mesh CA: it must be a member of the project's workload identity pool.",
          notFound: 'Check clusterUrl, and that the project has Mesh CA.',
        },
      })
      if (failure.code === 'unauthenticated') this.#authentication.forget()
      throw failure
    }
  }

  /** The last element is the root, as Istio's agent took it. */
  #issued(bytes: Buffer, answer: Answer): IssuedCertificate {
    const elements = decode(bytes, answer)
    if (elements.length < 2) throw badAnswer(answer, `has ${elements.length} elements, not a certificate and its root`)
    const { chain, roots } = this.#chains.read(elements, answer)
    if (roots.length > 0) return { chain, roots }
    return { chain: chain.slice(0, -1), roots: chain.slice(-1) }
  }

  #metadata({ headers }: CallCredentials): Metadata {
    const { location } = this.#target
    const metadata = new Metadata()
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
    // The service is regional: this is how a call finds the cluster's region.
    if (location !== undefined) metadata.set('x-goog-request-params', `location=locations/${location}`)
    return metadata
  }
}

function encode({ ttlSeconds }: CertificateRequest, csr: CertificateSigningRequest): Buffer {
  const seconds = BigInt(Math.max(1, Math.round(ttlSeconds)))
  const request = { requestId: requestId(String(seconds), csr.der), csr: csr.pem, validity: { seconds, nanos: 0 } }
  return Buffer.from(MeshCertificateRequest.encode(request).finish())
}

function decode(bytes: Buffer, answer: Answer): readonly string[] {
  try {
    return MeshCertificateResponse.decode(bytes).certChain
  } catch (error) {
    throw badAnswer(answer, 'is not a MeshCertificateResponse', error)
  }
}
