/** `livery check-config`: what the agent would run with. */
import type { ConfigSources } from '../config/layers.ts'
import { loadConfig } from '../config/load.ts'
import { configJson, printConfig } from '../config/print.ts'
import { unusableTrustFiles } from '../trust/unusable-files.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { printableJson } from './text-layout.ts'
import { unusableStoreKey } from './unusable-store-key.ts'

export async function checkConfig(sources: ConfigSources, { json }: GlobalOptions, terminal: Terminal): Promise<void> {
  const loaded = await loadConfig(sources)
  const warnings = [
    ...loaded.warnings,
    ...(await unusableTrustFiles(loaded.config)),
    ...(await unusableStoreKey(loaded.config)),
  ]
  for (const warning of warnings) terminal.err(`livery: warning: ${warning}\n`)
  terminal.out(json ? `${printableJson(configJson(loaded))}\n` : printConfig(loaded))
}
