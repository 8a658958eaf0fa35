/** The state of an embedded CA: its roots, and the one that signs. */
import { createHash } from 'node:crypto'
import type { Issuer } from './certificate-profiles.ts'

/** One root, and the intermediate that signs under it where there is one. */
export interface Anchor {
  /** SHA-256 of the root's DER, in hexadecimal. */
  readonly id: string
  readonly root: Issuer
  readonly intermediate?: Issuer
}

export interface AuthorityState {
  readonly trustDomain: string
  /** Oldest first. */
  readonly anchors: readonly Anchor[]
  /** One of `anchors`. */
  readonly signing: Anchor
}

export function rootId(root: Issuer): string {
  return createHash('sha256').update(new Uint8Array(root.certificate.rawData)).digest('hex')
}
