/** `livery check-config`: what the agent would run with. */
import { readPeerCredentials } from '@livery/native-keygen'
import { unreadableCallers } from '@livery/sds-server'
import { unusableCAFiles } from '../ca/unusable-files.ts'
import type { ConfigSources } from '../config/layers.ts'
import { type Config, loadConfig } from '../config/load.ts'
import { configJson, printConfig } from '../config/print.ts'
import { sdsSockets } from '../sds/sds-sockets.ts'
import { unusableTrustFiles } from '../trust/unusable-files.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { printableJson } from './text-layout.ts'
import { unusableStoreKey } from './unusable-store-key.ts'

export async function checkConfig(sources: ConfigSources, { json }: GlobalOptions, terminal: Terminal): Promise<void> {
  const loaded = await loadConfig(sources)
  const warnings = [
    ...loaded.warnings,
    ...(await unusableTrustFiles(loaded.config)),
    ...(await unusableCAFiles(loaded.config.ca)),
    ...(await unusableStoreKey(loaded.config)),
    ...(readPeerCredentials ? [] : refusedSockets(loaded.config)),
  ]
  for (const warning of warnings) terminal.err(`livery: warning: ${warning}\n`)
  terminal.out(json ? `${printableJson(configJson(loaded))}\n` : printConfig(loaded))
}

/** The sockets that keep the agent from starting without the addon. */
function refusedSockets(config: Config): string[] {
  // The second argument, a caller's share of identities, is irrelevant here.
  const sockets = sdsSockets(config, 1).filter(({ callers, identify }) => callers || identify)
  return sockets.map(({ path }) => unreadableCallers(path))
}
