/** The module `trust`: the roots and the revocation lists that the configuration lists. */
import type { Basis } from '../life/basis.ts'
import { RootSources } from './root-sources.ts'

export const trust = {
  async open({ config, life, clock, scopes }: Basis) {
    const rootSources = life.parts.use(new RootSources(clock, scopes.of('trust')))
    return { rootSources, roots: await rootSources.of(config), crls: await rootSources.crls(config) }
  },
}
