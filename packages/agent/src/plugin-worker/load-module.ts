/** In the thread: finds a plugin's module from the configuration's folder, and looks at what it exports. */
import { statSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type CAPlugin, type CredentialPlugin, checkFile, UntrustedPathError } from '@livery/core'
import type { PluginModule } from './messages.ts'
import { shapeFaults } from './plugin-shape.ts'
import { toWire } from './wire-error.ts'

export type LoadedModule =
  | { readonly plugin: CAPlugin | CredentialPlugin }
  /** A sentence each, without the specifier. */
  | { readonly faults: readonly string[] }

/** Never rejects. */
export async function loadModule(module: PluginModule): Promise<LoadedModule> {
  const url = resolveFrom(module)
  if ('fault' in url) return { faults: [url.fault] }
  shareCore()
  let exported: Readonly<Record<string, unknown>>
  try {
    exported = await import(url.href)
  } catch (error) {
    const reason = toWire(error).message.split('\n', 1)[0]
    return { faults: [`failed while it was loaded: ${reason}. Mend the module, or install a version that works.`] }
  }
  const plugin = exported['plugin'] ?? exported['default']
  if (plugin === undefined) return { faults: [noExport(Object.keys(exported))] }
  const faults = shapeFaults(module.kind, plugin)
  return faults.length > 0 ? { faults } : { plugin: plugin as CAPlugin | CredentialPlugin }
}

function noExport(names: readonly string[]): string {
  const present = names.length === 0 ? 'nothing' : names.slice(0, 10).join(', ')
  return `exports no plugin, but ${present}. Export it by the name plugin, or as default.`
}

const PLACEHOLDER = 'livery:plugin'

/** As an import in a file of that folder would find it; our own packages are not looked at. */
function resolveFrom({ specifier, parent }: PluginModule): { readonly href: string } | { readonly fault: string } {
  const parentURL = pathToFileURL(parent).href
  const folder = dirname(parent)
  const hooks = registerHooks({
    resolve: (wanted, context, next) =>
      wanted === PLACEHOLDER ? next(specifier, { ...context, parentURL }) : next(wanted, context),
  })
  try {
    const href = import.meta.resolve(PLACEHOLDER)
    if (!href.startsWith('file:')) return { fault: 'is no file. Name a package, or a path such as ./my-ca.mjs.' }
    const file = fileURLToPath(href)
    const found = statSync(file, { throwIfNoEntry: false })
    if (found?.isFile()) {
      checkFile(file, found, { shared: false })
      return { href }
    }
    return { fault: `is not found: there is no file ${file}. Correct the path.` }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND')
      return { fault: `is not found from ${folder}. Install it there, or name a file such as ./my-ca.mjs.` }
    if (error instanceof UntrustedPathError)
      return { fault: `is not loaded, since others could have written it: ${error.message}` }
    return { fault: `cannot be found from ${folder}: ${toWire(error).message}. Correct the name.` }
  } finally {
    hooks.deregister()
  }
}

/** A plugin has the agent's own copy of core, wherever it lies: else its errors would not be the agent's. */
function shareCore(): void {
  const url = import.meta.resolve('@livery/core')
  registerHooks({
    resolve: (wanted, context, next) =>
      wanted === '@livery/core' ? { url, shortCircuit: true } : next(wanted, context),
  })
}
