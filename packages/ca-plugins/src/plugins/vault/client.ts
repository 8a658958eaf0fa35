/** A {@link CAClient} for the PKI secrets engine of Vault or OpenBao: https://developer.hashicorp.com/vault/api-docs/secret/pki */
import {
  type CAClient,
  type CAContext,
  CAError,
  type CertificateRequest,
  type CertificateSigningRequest,
  type CredentialSource,
  type IssuedCertificate,
  type PluginLog,
  type SpiffeId,
  untilAborted,
} from '@livery/core/plugin'
import { badAnswer, ChainReader, selfSignedIn } from '../../answers/certificate-chain.ts'
import { scrub } from '../../answers/scrub.ts'
import { Closable } from '../../transport/closable.ts'
import type { VaultConfig } from './config.ts'
import { givenTokens, KubernetesLogin, type TokenRequest, type VaultTokens } from './vault-login.ts'
import { fieldsOf, VaultServer } from './vault-server.ts'

/** The most issuers of one mount: each is asked for. */
const MAX_ISSUERS = 100
/** The most warnings that are remembered as shown. */
const MAX_WARNINGS = 16

export class VaultClient implements CAClient {
  readonly #config: VaultConfig
  readonly #log: PluginLog
  readonly #server: VaultServer
  readonly #tokens: VaultTokens
  readonly #chains = new ChainReader()
  readonly #warned = new Set<string>()
  readonly #closing: Closable

  constructor(context: CAContext, config: VaultConfig, credentials: CredentialSource) {
    this.#config = config
    this.#closing = new Closable(config.address)
    this.#log = context.log
    this.#server = new VaultServer(context, config)
    this.#tokens = config.kubernetes
      ? new KubernetesLogin(this.#server, credentials, context, config, config.kubernetes)
      : givenTokens(credentials)
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const action = `get a certificate for ${request.identity} from ${this.#signPath} at ${this.#config.address}`
    const signal = this.#closing.until(request.signal)
    const csr = await untilAborted(request.csr(), signal)
    await this.#server.reachable(request, signal)
    const answer = await this.#withToken({ identity: request.identity, tokenFile: request.tokenFile, signal }, token =>
      this.#server.call({
        action,
        method: 'POST',
        path: this.#signPath,
        token,
        body: signingRequest(request, csr),
        tokenRemedy: this.#tokens.remedy,
        signal,
      }),
    )
    this.#showWarnings(answer['warnings'], request.identity)
    return this.#issued(fieldsOf(answer, 'data'), action)
  }

  /** The roots of all issuers in the mount. */
  async trustBundle(options: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const { mount, address } = this.#config
    const action = `get the roots of ${mount} at ${address}`
    const signal = this.#closing.until(options.signal)
    const ids = await this.#issuers(action, signal)
    const chains = await Promise.all(ids.map(id => this.#chainOf(id, action, signal)))
    const roots = selfSignedIn(chains.flat(), { action, remedy: 'Check address and mount' })
    if (roots.length > 0) return roots
    throw badAnswer(
      { action, remedy: `Import the root beside its intermediates: ${mount}/issuers/import/cert` },
      'has no root',
    )
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    await this.#server[Symbol.asyncDispose]()
  }

  get #signPath(): string {
    const { mount, issuer, role } = this.#config
    return issuer === undefined ? `${mount}/sign/${role}` : `${mount}/issuer/${issuer}/sign/${role}`
  }

  /** A held lease may have ended at the server: then a new login is made, once. */
  async #withToken<T>(request: TokenRequest, call: (token: string) => Promise<T>): Promise<T> {
    const { token, isHeld } = await untilAborted(this.#tokens.get(request), request.signal)
    try {
      return await call(token)
    } catch (error) {
      if (!(error instanceof CAError) || error.code !== 'unauthenticated') throw error
      this.#tokens.forget(request, token)
      if (!isHeld) throw error
    }
    const renewed = await untilAborted(this.#tokens.get(request), request.signal)
    return call(renewed.token)
  }

  async #issuers(action: string, signal: AbortSignal): Promise<readonly string[]> {
    const path = `${this.#config.mount}/issuers?list=true`
    const found = await this.#server.call({ action, path, tokenRemedy: OPEN_REMEDY, signal })
    const keys = fieldsOf(found, 'data')['keys']
    if (!Array.isArray(keys) || !keys.every(key => typeof key === 'string'))
      throw badAnswer({ action, remedy: 'Check address and mount' }, 'has no list of issuers')
    if (keys.length <= MAX_ISSUERS) return keys
    const remedy = 'Delete expired issuers, or use a separate mount for workloads'
    throw badAnswer({ action, remedy }, `has ${keys.length} issuers, more than ${MAX_ISSUERS}`)
  }

  /** Empty if the issuer was removed meanwhile. */
  async #chainOf(id: string, action: string, signal: AbortSignal): Promise<readonly string[]> {
    const path = `${this.#config.mount}/issuer/${encodeURIComponent(id)}/json`
    const found = await this.#server.find({ action, path, tokenRemedy: OPEN_REMEDY, signal })
    if (!found) return []
    const { certificate, ca_chain: chain } = fieldsOf(found, 'data')
    return [certificate, ...listOf(chain)].filter(element => typeof element === 'string')
  }

  #issued(data: Readonly<Record<string, unknown>>, action: string): IssuedCertificate {
    const { certificate, ca_chain: issuers, issuing_ca: issuer } = data
    const answer = { action, remedy: 'Check address, mount and role' }
    if (typeof certificate !== 'string') throw badAnswer(answer, 'has no certificate')
    // Vault leaves the chain out if the issuer is a root without a known issuer.
    const others = listOf(issuers).length > 0 ? listOf(issuers) : [issuer]
    const elements = [certificate, ...others.filter(other => typeof other === 'string')]
    const { chain, roots } = this.#chains.read(elements, answer)
    return { chain, ...(roots.length > 0 && { roots }) }
  }

  #showWarnings(warnings: unknown, identity: SpiffeId): void {
    for (const warning of listOf(warnings)) {
      if (typeof warning !== 'string') continue
      const text = scrub(warning, [])
      if (this.#warned.has(text) || this.#warned.size === MAX_WARNINGS) continue
      this.#warned.add(text)
      this.#log.warn(
        `The certificate for ${identity} from ${this.#signPath} at ${this.#config.address} came with a warning: ${text}. Set ttl to what the role allows; this is said once.`,
      )
    }
  }
}

const OPEN_REMEDY = 'Its issuers are readable without a token by default: check the proxy in between.'

function signingRequest(
  { identity, dnsNames = [], ttlSeconds }: CertificateRequest,
  { pem }: CertificateSigningRequest,
): object {
  return {
    csr: pem,
    // Serves a role that does not take names from the CSR (use_csr_sans).
    uri_sans: identity,
    ...(dnsNames.length > 0 && { alt_names: dnsNames.join(',') }),
    exclude_cn_from_sans: true,
    ttl: `${Math.max(1, Math.round(ttlSeconds))}s`,
    format: 'pem',
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
