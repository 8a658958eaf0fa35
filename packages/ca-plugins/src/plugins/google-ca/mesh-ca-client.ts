/** A {@link CAClient} for Mesh CA, Google's CA for Istio before Certificate Authority Service, spoken to as Istio 1.9 did. */
import type { CAClient, CertificateRequest, CertificateSigningRequest, IssuedCertificate } from '@livery/core/plugin'
import { type Answer, badAnswer, ChainReader } from '../../answers/certificate-chain.ts'
import { MeshCertificateRequest, MeshCertificateResponse } from '../../gen/google/security/meshca/v1/meshca.ts'
import type { MeshCaTarget } from './config.ts'
import { type GoogleClientParts, GoogleService } from './google-service.ts'
import { requestId } from './request-id.ts'

const CREATE_CERTIFICATE = '/google.security.meshca.v1.MeshCertificateService/CreateCertificate'

/** Its roots are known only from its chains. */
export class MeshCaClient implements CAClient {
  readonly #target: MeshCaTarget
  readonly #service: GoogleService
  readonly #chains = new ChainReader()

  constructor({ target, ...parts }: GoogleClientParts<MeshCaTarget>) {
    this.#target = target
    this.#service = new GoogleService({
      ...parts,
      ca: `Mesh CA at ${target.endpoint.address}`,
      endpoint: target.endpoint,
      remedies: {
        denied: "Let the caller use Mesh CA: it must be a member of the project's workload identity pool",
        notFound: 'Check clusterUrl, and that the project has Mesh CA',
      },
    })
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const { endpoint, location } = this.#target
    const action = `get a certificate for ${request.identity} from Mesh CA at ${endpoint.address}`
    const bytes = await this.#service.call({
      action,
      path: CREATE_CERTIFICATE,
      encode: async () => MeshCertificateRequest.encode(messageOf(request, await request.csr())).finish(),
      routing: location === undefined ? undefined : `location=locations/${location}`,
      identity: request.identity,
      tokenFile: request.tokenFile,
      connectWithinMs: request.connectWithinMs,
      signal: request.signal,
    })
    return this.#issued(bytes, { action, remedy: 'Check the endpoint' })
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]()
  }

  /** The last certificate is the root, self-signed or not, as Istio's agent took it. */
  #issued(bytes: Buffer, answer: Answer): IssuedCertificate {
    const elements = decode(bytes, answer)
    if (elements.length < 2) throw badAnswer(answer, `has ${elements.length} elements, not a certificate and its root`)
    const { chain, roots } = this.#chains.read(elements, answer)
    if (roots.length > 0) return { chain, roots }
    return { chain: chain.slice(0, -1), roots: chain.slice(-1) }
  }
}

function messageOf({ ttlSeconds }: CertificateRequest, csr: CertificateSigningRequest): MeshCertificateRequest {
  const seconds = BigInt(Math.max(1, Math.round(ttlSeconds)))
  return { requestId: requestId(String(seconds), csr.der), csr: csr.pem, validity: { seconds, nanos: 0 } }
}

function decode(bytes: Buffer, answer: Answer): readonly string[] {
  try {
    return MeshCertificateResponse.decode(bytes).certChain
  } catch (error) {
    throw badAnswer(answer, 'is not a MeshCertificateResponse', error)
  }
}
