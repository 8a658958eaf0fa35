/** A CA that announces changes on command: each one renews the named identities, or adds a root. */
import type { CAChange, CAClient, CertificateRequest, IssuedCertificate, SpiffeId } from '@livery/core/plugin'

/** Certificates come from `inner`, which it also closes; changes and roots come from the benchmark. */
export class PromptedClient implements CAClient {
  readonly #inner: CAClient
  readonly #roots: string[]
  #listener: ((change: CAChange) => void) | undefined

  /** `roots` (PEM): the initial trust anchors. */
  constructor(inner: CAClient, roots: readonly string[]) {
    this.#inner = inner
    this.#roots = [...roots]
  }

  issue(request: CertificateRequest): Promise<IssuedCertificate> {
    return this.#inner.issue(request)
  }

  async trustBundle(): Promise<readonly string[]> {
    return [...this.#roots]
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#listener = listener
    return {
      [Symbol.dispose]: () => {
        this.#listener = undefined
      },
    }
  }

  renew(identities: readonly SpiffeId[]): void {
    this.#listener?.({ kind: 'certificates', identities })
  }

  addRoot(pem: string): void {
    this.#roots.push(pem)
    this.#listener?.({ kind: 'roots' })
  }

  [Symbol.asyncDispose](): PromiseLike<void> {
    return this.#inner[Symbol.asyncDispose]()
  }
}
