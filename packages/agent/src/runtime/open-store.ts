/** Opens the store of the configuration: the secrets and pending requests that survive a restart. */
import { type Clock, FileStore, type KeyVault } from '@livery/core'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'

/** Resolves with `undefined` if none is configured. */
export async function openStore(
  { store, trustDomain }: Config,
  { clock, logger, vault }: { readonly clock: Clock; readonly logger: Logger; readonly vault: KeyVault },
): Promise<FileStore | undefined> {
  if (!store) return undefined
  const { directory, bootstrap } = store
  const options = { directory, trustDomain, clock, vault, ...(bootstrap !== undefined && { bootstrap }) }
  const opened = await FileStore.open(options)
  for (const warning of opened.warnings) logger.warn(warning)
  return opened
}
