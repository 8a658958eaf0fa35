/** The module `trust`: the roots and the revocation lists that the configuration lists. */
import type { RootSource } from '@livery/core'
import type { Basis, Module } from '../life/module.ts'
import { RootSources } from './root-sources.ts'

interface Gives {
  readonly rootSources: RootSources
  /** As the agent starts. */
  readonly roots: readonly RootSource[]
  readonly crls: readonly RootSource[]
}

export const trust: Module<Basis, Gives> = {
  async open({ config, life, clock, scopes }) {
    const rootSources = life.parts.use(new RootSources({ clock, logger: scopes.of('trust') }))
    return { rootSources, roots: await rootSources.of(config), crls: await rootSources.crls(config) }
  },
}
