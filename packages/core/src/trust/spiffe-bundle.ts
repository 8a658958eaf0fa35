/** A SPIFFE bundle: a trust domain's keys as a JWK Set (SPIFFE Trust Domain and Bundle, section 4). */

import { MAX_ROOTS } from '../contract/trust-anchor.ts'
import { derToPem } from '../x509/pem.ts'

export interface SpiffeBundle {
  /** PEM, one certificate per element; an empty text for a key without a certificate. */
  readonly roots: readonly string[]
  /** How often the publisher wants to be asked, milliseconds. */
  readonly refreshHintMs: number | undefined
}

/** Keys of other uses are left out, as the specification wants. Throws a `TypeError` with what is wrong with the set itself. */
export function readSpiffeBundle(json: unknown): SpiffeBundle {
  if (!isRecord(json) || !Array.isArray(json['keys'])) throw new TypeError('it is not a JWK Set: it has no list "keys"')
  const keys: readonly unknown[] = json['keys']
  const roots: string[] = []
  for (const key of keys) {
    if (!isRecord(key) || key['use'] !== 'x509-svid') continue
    roots.push(certificateOf(key))
    // One more than is taken, so that its reader sees that there are too many.
    if (roots.length > MAX_ROOTS) break
  }
  const { spiffe_refresh_hint: hint } = json
  const isHint = typeof hint === 'number' && Number.isFinite(hint) && hint > 0
  return { roots, refreshHintMs: isHint ? hint * 1_000 : undefined }
}

/** X509-SVID, section 6: `x5c` has exactly one certificate, in base64 (RFC 7517 section 4.7). */
function certificateOf({ x5c }: Readonly<Record<string, unknown>>): string {
  const [base64, ...others]: readonly unknown[] = Array.isArray(x5c) ? x5c : []
  if (typeof base64 !== 'string' || others.length > 0) return ''
  return derToPem(Buffer.from(base64, 'base64'), 'CERTIFICATE')
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
