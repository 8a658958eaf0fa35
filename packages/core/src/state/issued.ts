/** A checked certificate, with its key and the root of its chain. */

import type { VerifiedChain } from '../contract/certificate-verifier.ts'
import type { SealedKey } from '../contract/key-vault.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import { CertificateSecret } from '../secrets/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'

/**
 * The origin of a certificate: a CA that `signed` it; a source that `brought` it with its key; the previous process
 * (`store`); an operator, until another comes (`bootstrap`).
 */
export type Source = 'signed' | 'brought' | 'store' | 'bootstrap'

/** A checked certificate, which keeps its root in the bundle until it is released. */
export interface Issued {
  readonly source: Source
  /** When it came from the CA, milliseconds since the epoch. */
  readonly receivedAt: number
  /** The place of its renewal in the window, in [0, 1). */
  readonly slot: number
  /** The text of the wish by which it was asked for. */
  readonly wish: string
  readonly secret: CertificateSecret
  /** Its root, and the bundle that holds it. */
  readonly root: TrustAnchor
  readonly bundle: TrustBundle
  /** Equal for certificates with the same root, intermediates and key size: a client accepts all of a kind, or none. */
  readonly kind: string
  /** Why clients would refuse it with the roots known when it came: no better certificate exists. */
  readonly clientRefusal: string | undefined
}

export interface Origin extends Pick<Issued, 'source' | 'receivedAt' | 'slot' | 'wish' | 'root' | 'bundle'> {
  readonly id: SpiffeId
  readonly key: SealedKey
  readonly hint: string | undefined
}

/** The verified chain as it is served, with its key. */
export function toIssued(verified: VerifiedChain, origin: Origin): Issued {
  const { id, key, hint, source, receivedAt, slot, wish, root, bundle } = origin
  const secret = new CertificateSecret({
    name: id,
    version: verified.version,
    certificateChain: verified.chainPem,
    privateKey: key,
    notBefore: verified.notBefore,
    notAfter: verified.notAfter,
    serialNumber: verified.serialNumber,
    ...(hint && { hint }),
  })
  const { clientRefusal } = verified
  return {
    source,
    receivedAt,
    slot,
    wish,
    secret,
    root,
    bundle,
    kind: kindOf(verified, secret),
    clientRefusal,
  }
}

const MAX_KINDS = 64
const kinds = new Map<string, string>()

/** Counts key sizes in steps of 256 bytes, which tell types and sizes apart. Thousands of certificates share a kind, so it is kept once. */
function kindOf({ rootFingerprint }: VerifiedChain, { intermediatesDigest, privateKey }: CertificateSecret): string {
  const kind = `${rootFingerprint} ${intermediatesDigest} ${privateKey.byteLength >> 8}`
  const known = kinds.get(kind)
  if (known !== undefined) return known
  if (kinds.size >= MAX_KINDS) kinds.clear()
  kinds.set(kind, kind)
  return kind
}
