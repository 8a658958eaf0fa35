/** Puts the certificates in well-known folders before the CA, where such folders are. */
import { existsSync, realpathSync } from 'node:fs'
import type { CAClient } from '@livery/core'
import type { Config } from '../config/load.ts'
import { type PluginParts, pluginLog } from './create-ca-client.ts'

/** Resolves with `ca` itself where none of `files.wellKnown` is there, or files are what the plugin reads anyway. */
export async function withWellKnownFiles(
  ca: CAClient,
  { ca: { plugin }, files, identities, trustDomain }: Config,
  { clock, logger, counters, vault }: PluginParts,
  stack: AsyncDisposableStack,
): Promise<CAClient> {
  // The agent must not read the files that it writes: they would never be renewed.
  const outputs = new Set(identities.flatMap(({ output }) => (output ? [realOf(output.directory)] : [])))
  const folders = files.wellKnown.filter(folder => existsSync(folder) && !outputs.has(realOf(folder)))
  if (folders.length === 0 || plugin.name === 'file-mount') return ca
  const { WellKnownFiles } = await import('@livery/ca-plugins/file-mount')
  const log = pluginLog(logger, 'file-mount')
  const context = { clock, log, metrics: counters, trustDomain, ...(vault && { vault }) }
  return stack.use(new WellKnownFiles({ ca, folders, context }))
}

function realOf(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder
  }
}
