/** A {@link CAClient} for Certificate Authority Service: https://cloud.google.com/certificate-authority-service/docs */
import {
  type CAClient,
  type CAContext,
  type CertificateRequest,
  type CertificateSigningRequest,
  type IssuedCertificate,
  untilAborted,
} from '@livery/core'
import { badAnswer, ChainReader, rootsOfChains } from '../../answers/certificate-chain.ts'
import { Closable } from '../../transport/closable.ts'
import { CurrentConnection } from '../../transport/current-connection.ts'
import { CasConnection, type Certificate, type CreateCertificateRequest } from './cas-connection.ts'
import type { Authentication } from './google-authentication.ts'
import type { CasTarget } from './google-ca-config.ts'
import { errorOfStatus, isStatus, type Remedies } from './google-error.ts'
import type { GooglePackages } from './google-packages.ts'
import { requestId } from './request-id.ts'

export interface CasParts {
  readonly target: CasTarget
  readonly tls: CAContext['tls']
  readonly authentication: Authentication
  readonly privateCa: Awaited<ReturnType<GooglePackages['privateCa']>>
}

export class CasClient implements CAClient {
  readonly #target: CasTarget
  readonly #authentication: Authentication
  readonly #chains = new ChainReader()
  readonly #connection: CurrentConnection<CasConnection>
  readonly #closing: Closable

  constructor({ target, tls, authentication, privateCa }: CasParts) {
    this.#target = target
    this.#closing = new Closable(target.pool)
    this.#authentication = authentication
    this.#connection = new CurrentConnection(
      target.endpoint.plaintext ? undefined : tls,
      material => new CasConnection(privateCa, target.endpoint, material),
    )
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const action = `get a certificate for ${request.identity} from ${this.#target.pool} at ${this.#target.endpoint.address}`
    const signal = this.#closing.until(request.signal)
    const csr = await untilAborted(request.csr(), signal)
    const { tokenFile } = request
    const certificate = await this.#call(
      { action, signal, ...(tokenFile !== undefined && { tokenFile }) },
      (connection, call) => connection.createCertificate(this.#request(request, csr), call),
    )
    return this.#issued(certificate, action)
  }

  /** The roots of all CAs in the pool: enabled, staged and disabled. */
  async trustBundle(options: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const { pool, endpoint } = this.#target
    const action = `get the roots of ${pool} at ${endpoint.address}`
    const { caCerts } = await this.#call({ action, signal: this.#closing.until(options.signal) }, (connection, call) =>
      connection.fetchCaCerts(pool, call),
    )
    const roots = rootsOfChains(
      (caCerts ?? []).map(({ certificates }) => certificates ?? []),
      { action, remedy: 'Check the endpoint' },
    )
    if (roots.length === 0) throw badAnswer({ action, remedy: 'Create a CA in the pool' }, 'has no CA')
    return roots
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    this.#authentication[Symbol.dispose]()
    await this.#connection[Symbol.asyncDispose]()
  }

  async #call<T>(
    asked: { readonly action: string; readonly signal: AbortSignal; readonly tokenFile?: string },
    send: (connection: CasConnection, call: { headers: Record<string, string>; signal: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    const { action, signal, tokenFile } = asked
    const { headers, secrets } = await this.#authentication.authenticate({
      signal,
      ...(tokenFile !== undefined && { tokenFile }),
    })
    try {
      return await untilAborted(
        this.#connection.use(connection => send(connection, { headers: { ...headers }, signal })),
        signal,
      )
    } catch (error) {
      if (!isStatus(error)) throw error
      const failure = errorOfStatus(error, { action, secrets, remedies: this.#remedies })
      if (failure.code === 'unauthenticated') this.#authentication.forget()
      throw failure
    }
  }

  #issued({ pemCertificate, pemCertificateChain }: Certificate, action: string): IssuedCertificate {
    const elements = [pemCertificate ?? '', ...(pemCertificateChain ?? [])]
    const { chain, roots } = this.#chains.read(elements, { action, remedy: 'Check the endpoint' })
    return { chain, ...(roots.length > 0 && { roots }) }
  }

  #request({ ttlSeconds }: CertificateRequest, csr: CertificateSigningRequest): CreateCertificateRequest {
    const { pool, issuingCa = '', certificateTemplate = '', subjectMode } = this.#target
    const seconds = Math.max(1, Math.round(ttlSeconds))
    const id = requestId(pool, issuingCa, certificateTemplate, subjectMode, String(seconds), csr.der)
    return {
      parent: pool,
      // The Enterprise tier demands one, the DevOps tier ignores it.
      certificateId: `livery-${id}`,
      requestId: id,
      issuingCertificateAuthorityId: issuingCa,
      certificate: {
        pemCsr: csr.pem,
        lifetime: { seconds },
        certificateTemplate,
        subjectMode: subjectMode === 'csr' ? 'DEFAULT' : 'REFLECTED_SPIFFE',
      },
    }
  }

  get #remedies(): Remedies {
    const role = this.#target.subjectMode === 'csr' ? 'certificateRequester' : 'workloadCertificateRequester'
    return {
      unauthenticated: this.#authentication.remedy,
      denied: `Grant the caller roles/privateca.${role} and roles/privateca.poolReader on the pool.`,
      notFound: 'Check pool, issuingCa and certificateTemplate.',
    }
  }
}
