/** The module `store`: the secrets and pending requests that survive a restart. */
import { type Events, FileStore, type SecretReport } from '@livery/core'
import type { Basis } from '../life/basis.ts'
import type { MetricRow } from '../observe/metric-rows.ts'

interface Needs extends Basis {
  /** Makes this agent the owner of the store, from whom a successor requests it. */
  readonly ownStore?: ((directory: string) => Promise<void>) | undefined
}

export const store = {
  name: 'store',
  async open(made: Needs) {
    const store = await openStore(made)
    made.metrics.add(storeMetrics(store, made.events))
    return { store }
  },
}

async function openStore({ config, life, clock, scopes, vault, ownStore }: Needs): Promise<FileStore | undefined> {
  if (!config.store) return undefined
  const { directory, keyFile, bootstrap } = config.store
  const { trustDomain } = config
  const logger = scopes.of('store')
  if (keyFile === undefined) logger.info(`keys in ${directory} are in plain text: store.keyFile seals them`)
  const options = {
    directory,
    trustDomain,
    clock,
    vault,
    ...(keyFile !== undefined && { keyFile }),
    ...(bootstrap !== undefined && { bootstrap }),
    ...(ownStore && { own: () => ownStore(directory) }),
  }
  // Opened before the SecretManager, which fills it until it is closed.
  const opened = life.parts.use(await FileStore.open(options))
  for (const warning of opened.warnings) logger.warn(warning)
  life.own(opened)
  return opened
}

export function storeMetrics(
  store: { readonly unwritten: number } | undefined,
  events: Events<SecretReport>,
): readonly MetricRow[] {
  let failures = 0
  events.subscribe(({ event }) => void (event.kind === 'not-stored' && failures++))
  return [
    {
      name: 'livery_store_failures_total',
      help: 'Failed attempts to write to the store or to wipe its content. They are repeated.',
      read: () => failures,
    },
    {
      name: 'livery_store_unwritten',
      help: 'Changes that are not on disk yet, those that failed and are tried again included.',
      read: () => store?.unwritten ?? 0,
    },
  ]
}
