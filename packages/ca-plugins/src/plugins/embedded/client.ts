/** A {@link CAClient} around a certificate authority in the same process. */
import {
  type CAChange,
  type CAClient,
  type CertificateRequest,
  type IssuedCertificate,
  untilAborted,
} from '@livery/core/plugin'
import { Closable } from '../../transport/closable.ts'
import type { CertificateAuthority } from './certificate-authority.ts'

/** Any number of clients may share one authority; closing one leaves the authority as it is. */
export class EmbeddedClient implements CAClient {
  readonly authority: CertificateAuthority
  readonly #closing = new Closable('the embedded CA')
  readonly #subscriptions = new DisposableStack()

  constructor(authority: CertificateAuthority) {
    this.authority = authority
  }

  async issue({ identity, ttlSeconds, signal, csr }: CertificateRequest): Promise<IssuedCertificate> {
    signal.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    const { der } = await untilAborted(csr(), signal)
    const mayHave = () => true
    const { chain } = await untilAborted(this.authority.sign({ identity, csr: der, ttlSeconds, mayHave }), signal)
    return { chain, roots: this.authority.trustBundle() }
  }

  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    signal.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    return this.authority.trustBundle()
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#closing.signal.throwIfAborted()
    return this.#subscriptions.use(this.authority.subscribe(listener))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    this.#subscriptions.dispose()
  }
}
