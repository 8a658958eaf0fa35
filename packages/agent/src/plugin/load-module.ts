/** Runs in a plugin's process: loads the module, and checks its exports. */
import { registerHooks } from 'node:module'
import type { CAPlugin, CredentialPlugin, PluginKind } from '@livery/core/plugin'
import { Fault } from '../schema/fault.ts'
import { shapeFaults } from './plugin-manifest.ts'
import { toWire } from './wire-error.ts'

export type LoadedModule =
  | { readonly plugin: CAPlugin | CredentialPlugin }
  /** Texts without the specifier, which precedes them. */
  | { readonly faults: readonly Fault[] }

/** Never rejects. */
export async function loadModule(kind: PluginKind, href: string): Promise<LoadedModule> {
  shareOwnCopies()
  let exported: Readonly<Record<string, unknown>>
  try {
    exported = await import(href)
  } catch (error) {
    const reason = toWire(error).message.split('\n', 1)[0]?.replace(/\.$/, '')
    return { faults: [new Fault(`failed while it was loaded: ${reason}`, FIX_MODULE)] }
  }
  const plugin = exported['plugin'] ?? exported['default']
  if (plugin === undefined) return { faults: [noExport(Object.keys(exported))] }
  const faults = shapeFaults(kind, plugin)
  return faults.length > 0 ? { faults } : { plugin: plugin as CAPlugin | CredentialPlugin }
}

export const FIX_MODULE = 'Fix the module, or install a version that works'

function noExport(names: readonly string[]): Fault {
  const present = names.length === 0 ? 'nothing' : names.slice(0, 10).join(', ')
  return new Fault(`exports no plugin, but ${present}`, 'Export it by the name plugin, or as default')
}

const SHARED = ['@livery/core', '@livery/core/plugin', '@livery/ca-plugins/support']

/** A plugin gets the agent's own copies of shared packages, wherever it is installed: its errors would otherwise be of other classes. */
function shareOwnCopies(): void {
  const urls = new Map(SHARED.map(specifier => [specifier, import.meta.resolve(specifier)]))
  registerHooks({
    resolve: (wanted, context, next) => {
      const url = urls.get(wanted)
      return url === undefined ? next(wanted, context) : { url, shortCircuit: true }
    },
  })
}
