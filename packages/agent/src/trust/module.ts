/** The module `trust`: the configured roots and revocation lists. */
import type { Basis } from '../life/basis.ts'
import { RootSources } from './root-sources.ts'

export const trust = {
  async open({ config, life, clock, scopes, events, metrics }: Basis) {
    const rootSources = life.parts.use(new RootSources(clock, scopes.of('trust')))
    const ends = new Map<string, number>()
    events.subscribe(({ name, event }) => {
      if (event.kind === 'crl-changed') ends.set(name.slice('spiffe://'.length), (event.nextUpdate ?? 0) / 1000)
    })
    metrics.add([
      {
        name: 'livery_crl_next_update_timestamp_seconds',
        help: 'When the first of the revocation lists of a trust domain is out of date: verifiers refuse all its peers after it. 0 without one.',
        labels: ['trust_domain'],
        read: () => Array.from(ends, ([trustDomain, end]) => [end, trustDomain] as const),
      },
    ])
    return { rootSources, roots: await rootSources.of(config), crls: await rootSources.crls(config) }
  },
}
