/** The module `store`: the secrets and pending requests that survive a restart. */
import { FileStore } from '@livery/core'
import type { Basis } from '../life/basis.ts'
import { storeMetrics } from '../observe/store-metrics.ts'

interface Needs extends Basis {
  /** Makes this agent the one that its successor asks for the store. */
  readonly ownStore?: ((directory: string) => Promise<void>) | undefined
}

export const store = {
  name: 'store',
  async open(made: Needs) {
    const store = await openStore(made)
    made.metrics.add(storeMetrics(store))
    return { store }
  },
}

async function openStore({ config, life, clock, scopes, vault, ownStore }: Needs): Promise<FileStore | undefined> {
  if (!config.store) return undefined
  const { directory, bootstrap } = config.store
  const { trustDomain } = config
  const options = { directory, trustDomain, clock, vault, ...(bootstrap !== undefined && { bootstrap }) }
  // Before the SecretManager, which fills it until it is closed.
  const opened = life.parts.use(await FileStore.open(options))
  for (const warning of opened.warnings) scopes.of('store').warn(warning)
  life.own(opened)
  await ownStore?.(directory)
  return opened
}
