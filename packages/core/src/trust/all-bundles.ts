/** The bundles of all trust domains together, for verifiers of peers in several trust domains. */

import { createHash } from 'node:crypto'
import { AllBundlesSecret, type DomainBundle } from '../secrets/secret-item.ts'

const MAX_SECRETS = 16
const secrets = new Map<string, AllBundlesSecret>()

/** The secret of these bundles, in any order; `undefined` for none. The latest are cached, so that subscribers share one. */
export function allBundlesSecret(trustDomain: string, bundles: Iterable<DomainBundle>): AllBundlesSecret | undefined {
  const sorted = [...bundles].sort((a, b) => (a.trustDomain < b.trustDomain ? -1 : 1))
  if (sorted.length === 0) return undefined
  const hash = createHash('sha256')
  for (const each of sorted) hash.update(`${each.trustDomain} ${each.bundle.version}\n`)
  const version = hash.digest('hex')
  const key = `${trustDomain} ${version}`
  const known = secrets.get(key)
  if (known) return known
  const own = sorted.find(each => each.trustDomain === trustDomain)?.bundle
  const secret = new AllBundlesSecret({ version, own, bundles: sorted })
  const [oldest] = secrets.keys()
  if (oldest !== undefined && secrets.size >= MAX_SECRETS) secrets.delete(oldest)
  secrets.set(key, secret)
  return secret
}
