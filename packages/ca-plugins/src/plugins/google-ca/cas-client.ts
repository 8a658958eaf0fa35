/** A {@link CAClient} for Certificate Authority Service: https://cloud.google.com/certificate-authority-service/docs */
import type { CAClient, CertificateRequest, CertificateSigningRequest, IssuedCertificate } from '@livery/core/plugin'
import { type Answer, badAnswer, ChainReader, rootsOfChains } from '../../answers/certificate-chain.ts'
import { Certificate, SubjectRequestMode } from '../../gen/google/cloud/security/privateca/v1/resources.ts'
import {
  CreateCertificateRequest,
  FetchCaCertsRequest,
  FetchCaCertsResponse,
} from '../../gen/google/cloud/security/privateca/v1/service.ts'
import type { CasTarget } from './config.ts'
import { type GoogleClientParts, GoogleService } from './google-service.ts'
import { requestId } from './request-id.ts'

const SERVICE = '/google.cloud.security.privateca.v1.CertificateAuthorityService'

export class CasClient implements CAClient {
  readonly #target: CasTarget
  readonly #service: GoogleService
  readonly #chains = new ChainReader()

  constructor({ target, ...parts }: GoogleClientParts<CasTarget>) {
    const role = target.subjectMode === 'csr' ? 'certificateRequester' : 'workloadCertificateRequester'
    this.#target = target
    this.#service = new GoogleService({
      ...parts,
      ca: target.pool,
      endpoint: target.endpoint,
      remedies: {
        denied: `Grant the caller roles/privateca.${role} and roles/privateca.poolReader on the pool`,
        notFound: 'Check pool, issuingCa and certificateTemplate',
      },
    })
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const { pool, endpoint } = this.#target
    const action = `get a certificate for ${request.identity} from ${pool} at ${endpoint.address}`
    const bytes = await this.#service.call({
      action,
      path: `${SERVICE}/CreateCertificate`,
      encode: async () => CreateCertificateRequest.encode(this.#request(request, await request.csr())).finish(),
      routing: `parent=${encodeURIComponent(pool)}`,
      identity: request.identity,
      tokenFile: request.tokenFile,
      connectWithinMs: request.connectWithinMs,
      signal: request.signal,
    })
    const answer = { action, remedy: 'Check the endpoint' }
    const { pemCertificate, pemCertificateChain } = decode(() => Certificate.decode(bytes), answer)
    const { chain, roots } = this.#chains.read([pemCertificate, ...pemCertificateChain], answer)
    return { chain, ...(roots.length > 0 && { roots }) }
  }

  /** The roots of all CAs in the pool: enabled, staged and disabled. */
  async trustBundle(options: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const { pool, endpoint } = this.#target
    const action = `get the roots of ${pool} at ${endpoint.address}`
    const bytes = await this.#service.call({
      action,
      path: `${SERVICE}/FetchCaCerts`,
      encode: async () => FetchCaCertsRequest.encode({ caPool: pool }).finish(),
      routing: `ca_pool=${encodeURIComponent(pool)}`,
      signal: options.signal,
    })
    const answer = { action, remedy: 'Check the endpoint' }
    const { caCerts } = decode(() => FetchCaCertsResponse.decode(bytes), answer)
    const chains = caCerts.map(({ certificates }) => certificates)
    const roots = rootsOfChains(chains, answer)
    if (roots.length === 0) throw badAnswer({ action, remedy: 'Create a CA in the pool' }, 'has no CA')
    return roots
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]()
  }

  #request({ ttlSeconds }: CertificateRequest, csr: CertificateSigningRequest): CreateCertificateRequest {
    const { pool, issuingCa = '', certificateTemplate = '', subjectMode } = this.#target
    const seconds = Math.max(1, Math.round(ttlSeconds))
    const id = requestId(pool, issuingCa, certificateTemplate, subjectMode, String(seconds), csr.der)
    return {
      parent: pool,
      // The Enterprise tier requires one, the DevOps tier ignores it.
      certificateId: `livery-${id}`,
      requestId: id,
      issuingCertificateAuthorityId: issuingCa,
      certificate: {
        pemCsr: csr.pem,
        lifetime: { seconds: BigInt(seconds), nanos: 0 },
        certificateTemplate,
        subjectMode: subjectMode === 'csr' ? SubjectRequestMode.DEFAULT : SubjectRequestMode.REFLECTED_SPIFFE,
        pemCertificate: '',
        pemCertificateChain: [],
      },
    }
  }
}

function decode<T>(read: () => T, answer: Answer): T {
  try {
    return read()
  } catch (error) {
    throw badAnswer(answer, 'is not a message of Certificate Authority Service', error)
  }
}
