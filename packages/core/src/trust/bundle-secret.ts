/** The roots of one trust domain and of all as SDS serves them: each set once, since thousands of identities have the same roots. */

import { createHash } from 'node:crypto'
import type { Root } from '../contract/trust-anchor.ts'
import { AllBundlesSecret, type DomainBundle, TrustBundleSecret } from '../secrets/secret-item.ts'
import type { Revocation } from './revocation.ts'

const MAX_SECRETS = 16
const ofDomains = new Map<string, TrustBundleSecret>()
const ofAll = new Map<string, AllBundlesSecret>()

/** The secret of these roots, in any order. */
export function bundleSecret(trustDomain: string, roots: readonly Root[], revocation?: Revocation): TrustBundleSecret {
  const byFingerprint = new Map(roots.map(root => [root.fingerprint, root]))
  const sorted = [...byFingerprint.values()].sort((a, b) => (a.fingerprint < b.fingerprint ? -1 : 1))
  const hash = createHash('sha256')
  for (const { fingerprint } of sorted) hash.update(fingerprint)
  if (revocation) hash.update(revocation.digest)
  const version = hash.digest('hex')
  return latest(ofDomains, `${trustDomain} ${version}`, () => {
    const trustedCa = Buffer.from(sorted.map(({ pem }) => pem).join(''))
    const fingerprints = new Set(byFingerprint.keys())
    const crl = revocation && { crl: revocation.crl }
    return new TrustBundleSecret({ name: `spiffe://${trustDomain}`, version, trustedCa, fingerprints, ...crl })
  })
}

/** The secret of these bundles, in any order; `undefined` for none. `trustDomain`: the agent's own. */
export function allBundlesSecret(trustDomain: string, bundles: Iterable<DomainBundle>): AllBundlesSecret | undefined {
  const sorted = [...bundles].sort((a, b) => (a.trustDomain < b.trustDomain ? -1 : 1))
  if (sorted.length === 0) return undefined
  const hash = createHash('sha256')
  for (const each of sorted) hash.update(`${each.trustDomain} ${each.bundle.version}\n`)
  const version = hash.digest('hex')
  return latest(ofAll, `${trustDomain} ${version}`, () => {
    const own = sorted.find(each => each.trustDomain === trustDomain)?.bundle
    return new AllBundlesSecret({ version, own, bundles: sorted })
  })
}

function latest<Secret>(secrets: Map<string, Secret>, key: string, make: () => Secret): Secret {
  const known = secrets.get(key)
  if (known !== undefined) return known
  const secret = make()
  const [oldest] = secrets.keys()
  if (oldest !== undefined && secrets.size >= MAX_SECRETS) secrets.delete(oldest)
  secrets.set(key, secret)
  return secret
}
