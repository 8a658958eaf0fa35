/** The state of an embedded CA: its roots, how they are made, and the signing one. */
import { createHash } from 'node:crypto'
import type { Clock, KeyType } from '@livery/core/plugin'
import { createIntermediate, createRoot, type Issuer } from './certificate-profiles.ts'

/** One root, and the intermediates under it where there are any. */
export interface Anchor {
  /** SHA-256 of the root's DER, in hexadecimal. */
  readonly id: string
  readonly root: Issuer
  /** The intermediate that signs. */
  readonly intermediate?: Issuer
  /** PEM: between the root and `intermediate`. */
  readonly upperIntermediate?: string
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

export interface CertificateAuthorityOptions {
  readonly clock: Clock
  /** The one trust domain that it issues for. */
  readonly trustDomain: string
  /** The key type of new roots and intermediates; default `ecdsa-p256`. */
  readonly keyType?: KeyType
  /** Whether new roots sign through an intermediate; default `false`. */
  readonly intermediate?: boolean
  /** Whether a second intermediate is above it, as in long chains; needs `intermediate` and no `directory`; default `false`. */
  readonly upperIntermediate?: boolean
  /** The folder that keeps the CA, so that a restart has the same root; default: in memory only. */
  readonly directory?: string
  /** Called with each change to `directory` that keeps others from looking into it. */
  readonly warn?: (message: string) => void
  /** The CA refuses a longer lifetime (`ttl-too-long`), as istiod does; default 7,776,000 (90 days). */
  readonly maxTtlSeconds?: number
  /** How far notBefore is in the past, for clients whose clock is behind; default 120, as istiod. */
  readonly backdateSeconds?: number
  /** The lifetime of new roots; default 315,360,000 (10 years). */
  readonly rootTtlSeconds?: number
}

/** The options with every default filled in. */
export type AuthorityPolicy = Required<Omit<CertificateAuthorityOptions, 'directory' | 'warn'>>

export async function firstState(options: AuthorityPolicy): Promise<AuthorityState> {
  const anchor = await createAnchor(options)
  return { trustDomain: options.trustDomain, anchors: [anchor], signing: anchor }
}

/** No clock that was ever set says an earlier time. */
export const EARLIEST = Date.UTC(2025, 0, 1)

export async function createAnchor(options: AuthorityPolicy): Promise<Anchor> {
  const now = options.clock.now()
  // A root from that time would have ended once the clock is set.
  if (now < EARLIEST)
    throw new Error(`Cannot make a root: the clock says ${new Date(now).toISOString()}. Set it, and start again.`)
  const validity = { notBefore: now - options.backdateSeconds * 1000, notAfter: now + options.rootTtlSeconds * 1000 }
  const root = await createRoot(options.trustDomain, options.keyType, validity)
  const id = rootId(root)
  if (!options.intermediate) return { id, root }
  if (!options.upperIntermediate)
    return { id, root, intermediate: await createIntermediate(root, options.keyType, validity) }
  const upper = await createIntermediate(root, options.keyType, validity, 1)
  const intermediate = await createIntermediate(upper, options.keyType, validity)
  return { id, root, intermediate, upperIntermediate: upper.pem }
}

export function findAnchor(state: AuthorityState, id: string): Anchor {
  const anchor = state.anchors.find(each => each.id === id)
  if (anchor) return anchor
  const known = state.anchors.map(each => each.id).join(', ')
  throw new TypeError(`Cannot find root ${JSON.stringify(id)}: this CA has ${known}`)
}

export function issuerOf(anchor: Anchor): Issuer {
  return anchor.intermediate ?? anchor.root
}

/** PEM, the one that signs first. */
export function intermediatesOf({ intermediate, upperIntermediate }: Anchor): readonly string[] {
  return [intermediate?.pem, upperIntermediate].filter(pem => pem !== undefined)
}
