/** Gives certificates in existing well-known folders precedence over the CA. */
import { existsSync, realpathSync } from 'node:fs'
import type { CAClient } from '@livery/core/plugin'
import type { Basis } from '../life/basis.ts'
import { pluginLog } from '../observe/plugin-log.ts'

/** Resolves with `ca` itself if no folder of `files.wellKnown` exists, or the plugin reads files anyway. */
export async function withWellKnownFiles({
  config,
  ca,
  clock,
  scopes,
  metrics,
  vault,
  life,
}: Basis & { readonly ca: CAClient }): Promise<CAClient> {
  const { files, identities, trustDomain } = config
  // The agent must not read the files that it writes: they would never be renewed.
  const outputs = new Set(identities.flatMap(({ output }) => (output ? [realOf(output.directory)] : [])))
  const folders = files.wellKnown.filter(folder => existsSync(folder) && !outputs.has(realOf(folder)))
  if (folders.length === 0 || config.ca.plugin.name === 'file-mount') return ca
  const { WellKnownFiles } = await import('@livery/ca-plugins/file-mount')
  const log = pluginLog(scopes.of('plugin'), 'file-mount')
  const context = { clock, log, metrics: metrics.plugins, trustDomain, vault }
  return life.parts.use(new WellKnownFiles(ca, folders, context))
}

function realOf(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder
  }
}
