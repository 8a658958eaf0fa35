/** The `embedded` plugin: a {@link CAClient} around a certificate authority in the same process. */
import {
  type CAChange,
  type CAClient,
  CAError,
  type CertificateRequest,
  type IssuedCertificate,
  untilAborted,
} from '@livery/core'
import type { PluginContext } from '../plugin-context.ts'
import { CertificateAuthority, type CertificateAuthorityOptions } from './certificate-authority.ts'

/** As {@link CertificateAuthorityOptions}; the clock comes with the context. */
export type EmbeddedConfig = Omit<CertificateAuthorityOptions, 'clock'>

/** Opens the CA of `config` (as {@link CertificateAuthority.open} does) and says that it is not for production. */
export async function createEmbedded(config: EmbeddedConfig, context: PluginContext): Promise<EmbeddedClient> {
  const authority = await CertificateAuthority.open({ ...config, clock: context.clock })
  const place = config.directory === undefined ? 'in memory' : `in ${config.directory}`
  const root = authority.isNew ? 'has made a new root' : 'has the root that it had before'
  context.warn(`The embedded CA ${root}, and keeps its key ${place}: it is for trying things out, not for production.`)
  return new EmbeddedClient(authority)
}

/** Any number of clients may share one authority; closing one leaves the authority as it is. */
export class EmbeddedClient implements CAClient {
  readonly authority: CertificateAuthority
  readonly #subscriptions = new DisposableStack()

  constructor(authority: CertificateAuthority) {
    this.authority = authority
  }

  async issue({ identity, ttlSeconds, signal, csr }: CertificateRequest): Promise<IssuedCertificate> {
    signal.throwIfAborted()
    this.#checkOpen()
    const { der } = await untilAborted(csr(), signal)
    const { chain } = await untilAborted(this.authority.sign({ identity, csr: der, ttlSeconds }), signal)
    return { chain, roots: this.authority.trustBundle() }
  }

  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    signal.throwIfAborted()
    this.#checkOpen()
    return this.authority.trustBundle()
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#checkOpen()
    return this.#subscriptions.use(this.authority.subscribe(listener))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscriptions.dispose()
  }

  #checkOpen(): void {
    if (this.#subscriptions.disposed)
      throw new CAError('unavailable', 'Cannot ask the embedded CA: its client is closed.', { retryable: false })
  }
}
