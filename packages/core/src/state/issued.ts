/** A certificate that was checked, with its key and the root it ends under. */
import { hash } from 'node:crypto'
import type { SealedKey } from '../contract/key-vault.ts'
import type { TrustAnchor } from '../contract/trust-anchor.ts'
import { CertificateSecret } from '../secrets/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import type { VerifiedChain } from '../x509/ca-answer-verifier.ts'

/**
 * Where a certificate comes from: a CA that signed or, with the key, a source that `brought` it; the previous process; an
 * operator, until there is another.
 */
export type Source = 'signed' | 'brought' | 'store' | 'bootstrap'

/** A checked certificate, which keeps its root in the bundle until it is released. */
export interface Issued {
  readonly source: Source
  /** When it came from the CA, milliseconds since the epoch. */
  readonly receivedAt: number
  /** Of its renewal: where in the window it is planned, in [0, 1). */
  readonly slot: number
  /** The text of the wish by which it was asked for. */
  readonly wish: string
  readonly secret: CertificateSecret
  /** Its root, and the bundle that holds it. */
  readonly root: TrustAnchor
  readonly bundle: TrustBundle
  /** The same for certificates of the same root, intermediates and size of key: a client takes all of a kind, or none. */
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
    kind: kindOf(verified, key.byteLength),
    clientRefusal,
  }
}

const END_OF_CERTIFICATE = '-----END CERTIFICATE-----\n'
const MAX_KINDS = 64
const kinds = new Map<string, string>()
/** Of the last certificate: most have the same ones. */
let lastIssuer = { intermediates: '', fingerprint: '' }

/** By 256 bytes the keys of every type and size differ, and those of one do not. Thousands of certificates are of one kind: it is kept once. */
function kindOf({ rootFingerprint, chainPem }: VerifiedChain, keyBytes: number): string {
  const intermediates = chainPem.slice(chainPem.indexOf(END_OF_CERTIFICATE) + END_OF_CERTIFICATE.length)
  if (intermediates !== lastIssuer.intermediates)
    lastIssuer = { intermediates, fingerprint: intermediates === '' ? '' : hash('sha256', intermediates) }
  const kind = `${rootFingerprint} ${lastIssuer.fingerprint} ${keyBytes >> 8}`
  const known = kinds.get(kind)
  if (known !== undefined) return known
  if (kinds.size >= MAX_KINDS) kinds.clear()
  kinds.set(kind, kind)
  return kind
}
