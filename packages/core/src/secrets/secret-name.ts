/** The names of secrets: identities, trust domains, and what others write. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'

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
