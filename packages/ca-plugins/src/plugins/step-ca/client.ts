/** A {@link CAClient} for Smallstep's CA, asked with one-time tokens: https://smallstep.com/docs/step-ca/ */
import {
  type CAClient,
  type CAContext,
  type CertificateRequest,
  type CertificateSigningRequest,
  type Clock,
  type IssuedCertificate,
  untilAborted,
} from '@livery/core/plugin'
import { badAnswer, ChainReader, rootsOfChains } from '../../answers/certificate-chain.ts'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { Closable } from '../../transport/closable.ts'
import { HttpsJson, type JsonAnswer, withSlash } from '../../transport/https-json.ts'
import type { Proof, StepCaConfig } from './config.ts'
import { errorOfAnswer } from './errors.ts'
import { pinnedRoot } from './pinned-root.ts'
import { ProvisionerKey } from './provisioner-key.ts'

/** The remedy for an unusable answer. */
const REMEDY = 'Check that the address belongs to a step-ca'

/** Makes the token of one call, or gets it. */
interface TokenSource {
  get(request: CertificateRequest, csr: CertificateSigningRequest, signal: AbortSignal): Promise<string>
  /** The remedy if the CA rejects the token. */
  readonly remedy: string
}

export class StepCaClient implements CAClient {
  readonly #clock: Clock
  readonly #address: string
  readonly #http: HttpsJson
  readonly #tokens: TokenSource
  readonly #chains = new ChainReader()
  readonly #closing: Closable

  constructor(context: CAContext, config: StepCaConfig, proof: Proof) {
    const { address, fingerprint } = config
    const { clock } = context
    this.#closing = new Closable(`step-ca at ${address}`)
    const { signal } = this.#closing
    this.#clock = clock
    this.#address = address
    this.#tokens = tokenSource(proof, address, clock)
    const timeoutMs = CALL_TIMEOUT_MS
    const connection = { address, tls: context.tls, clock, timeoutMs }
    const tls = fingerprint === undefined ? context.tls : pinnedRoot(connection, fingerprint, signal)
    this.#http = new HttpsJson({ ...connection, tls })
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const action = `get a certificate for ${request.identity} from step-ca at ${this.#address}`
    const signal = this.#closing.until(request.signal)
    const csr = await untilAborted(request.csr(), signal)
    await this.#http.reachable(request, signal)
    const ott = await untilAborted(this.#tokens.get(request, csr, signal), signal)
    const answer = await this.#http.request({
      action,
      method: 'POST',
      path: '1.0/sign',
      body: { csr: csr.pem, ott, notAfter: `${Math.max(1, Math.round(request.ttlSeconds))}s` },
      signal,
    })
    const certificates = this.#certificates(answer, 'certChain', action, [ott])
    const { chain, roots } = this.#chains.read(certificates, { action, remedy: REMEDY })
    return { chain, ...(roots.length > 0 && { roots }) }
  }

  async trustBundle(options: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const action = `get the roots of step-ca at ${this.#address}`
    const answer = await this.#http.request({ action, path: '1.0/roots', signal: this.#closing.until(options.signal) })
    const certificates = this.#certificates(answer, 'crts', action, [])
    const roots = rootsOfChains(
      certificates.map(pem => [pem]),
      { action, remedy: REMEDY },
    )
    if (roots.length === 0) throw badAnswer({ action, remedy: REMEDY }, 'has no root')
    return roots
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    await this.#http[Symbol.asyncDispose]()
  }

  /** The list at `name` in a good answer. */
  #certificates(answer: JsonAnswer, name: string, action: string, secrets: readonly string[]): readonly string[] {
    if (answer.status !== 200 && answer.status !== 201)
      throw errorOfAnswer(answer, { action, secrets, tokenRemedy: this.#tokens.remedy, clock: this.#clock })
    const list = answer.json?.[name]
    if (Array.isArray(list) && list.every(element => typeof element === 'string')) return list
    throw badAnswer({ action, remedy: REMEDY }, `has no list ${name}`)
  }
}

function tokenSource(proof: Proof, address: string, clock: Clock): TokenSource {
  if (proof.kind === 'key') {
    const key = new ProvisionerKey({ ...proof, audience: new URL('1.0/sign', withSlash(address)).href, clock })
    return {
      get: ({ identity, dnsNames = [] }, csr) => key.sign([identity, ...dnsNames], csr),
      remedy: `Check that the CA has the provisioner ${JSON.stringify(proof.provisioner)} with the key in jwkFile, that the host of address is in its dnsNames, and that both clocks are right`,
    }
  }
  const { credentials } = proof
  return {
    get: async ({ identity, tokenFile }, _csr, signal) =>
      (await credentials.get({ identity, ...(tokenFile !== undefined && { tokenFile }), signal })).token,
    remedy: `Check that a provisioner of the CA accepts ${credentials.description}: its issuer, client ID or audience, expiry, and that it was not used before`,
  }
}
