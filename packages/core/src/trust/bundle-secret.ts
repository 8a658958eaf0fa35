/** The trust bundle as SDS serves it, shared by all with the same roots. */

import { createHash } from 'node:crypto'
import type { Root } from '../contract/trust-anchor.ts'
import { TrustBundleSecret } from '../secrets/secret-item.ts'
import type { Revocation } from './revocation.ts'

const MAX_SECRETS = 16
const secrets = new Map<string, TrustBundleSecret>()

/** The secret of these roots, in any order. Thousands of identities have the same ones: the latest are kept once. */
export function bundleSecret(trustDomain: string, roots: readonly Root[], revocation?: Revocation): TrustBundleSecret {
  const byFingerprint = new Map(roots.map(root => [root.fingerprint, root]))
  const sorted = [...byFingerprint.values()].sort((a, b) => (a.fingerprint < b.fingerprint ? -1 : 1))
  const hash = createHash('sha256')
  for (const { fingerprint } of sorted) hash.update(fingerprint)
  if (revocation) hash.update(revocation.digest)
  const version = hash.digest('hex')
  const key = `${trustDomain} ${version}`
  const known = secrets.get(key)
  if (known) return known
  const secret = new TrustBundleSecret({
    name: `spiffe://${trustDomain}`,
    version,
    trustedCa: Buffer.from(sorted.map(({ pem }) => pem).join('')),
    fingerprints: new Set(byFingerprint.keys()),
    ...(revocation && { crl: revocation.crl }),
  })
  const [oldest] = secrets.keys()
  if (oldest !== undefined && secrets.size >= MAX_SECRETS) secrets.delete(oldest)
  secrets.set(key, secret)
  return secret
}
