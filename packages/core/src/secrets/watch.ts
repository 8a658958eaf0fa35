/** One watched name: its current secret, each later version, and a way to report that somebody waits. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { SecretItem } from './secret-item.ts'

/** A name that can be watched: the certificate of an identity, the bundle of a trust domain or of all, or a secret that others write. */
export type SecretName =
  | { readonly kind: 'identity'; readonly identity: SpiffeId }
  /** `identity`: as seen by this identity, which may have its own roots. */
  | { readonly kind: 'bundle'; readonly trustDomain: string; readonly identity?: SpiffeId }
  /** The bundles of all trust domains, each apart; `identity` as for a bundle. */
  | { readonly kind: 'all-bundles'; readonly identity?: SpiffeId }
  | FileSecretName

/** A secret that others write, to files or to a Secret of Kubernetes, or a token that they sign. The paths are absolute. */
export type FileSecretName =
  | { readonly kind: 'file-pair'; readonly chain: string; readonly key: string }
  /** `file`: or `system`, the roots of the operating system. */
  | { readonly kind: 'file-roots'; readonly file: string }
  | ({ readonly kind: 'kubernetes-pair' } & KubernetesObject)
  /** The roots of `name-cacert`, or where there is no such Secret, of `name`. */
  | ({ readonly kind: 'kubernetes-roots' } & KubernetesObject)
  | TokenName

export interface KubernetesObject {
  readonly namespace: string
  readonly name: string
}

/** A token for one audience. */
export interface TokenName {
  readonly kind: 'pod-token'
  readonly audience: string
  /** The UID of the pod whose own token it is; absent as callers write the name, since each means its own. */
  readonly pod?: string
}

/** Disposing it ends the calls of its listener. */
export interface Watch extends Disposable {
  /**
   * The newest version that is usable now, or `undefined` while there is none. Use it at once: its key is wiped when
   * the next version arrives.
   */
  readonly current: SecretItem | undefined
  /**
   * Reports that somebody waits: an identity without a certificate becomes urgent. An unknown identity is issued on
   * demand, and kept while it is used and there is room. Without room the ledger says so, and it is issued once there
   * is some. Does nothing for a bundle or files.
   */
  request(): void
}

/** The part of the manager that a watch uses. */
export interface Watchable {
  current(name: SecretName): SecretItem | undefined
  request(identity: SpiffeId): void
}

export class NameWatch implements Watch {
  readonly #source: Watchable
  readonly #name: SecretName
  readonly #subscription: Disposable

  constructor(source: Watchable, name: SecretName, subscription: Disposable) {
    this.#source = source
    this.#name = name
    this.#subscription = subscription
  }

  get current(): SecretItem | undefined {
    return this.#source.current(this.#name)
  }

  request(): void {
    if (this.#name.kind === 'identity') this.#source.request(this.#name.identity)
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]()
  }
}
