/** Finds a plugin's module from the configuration's folder, without running any of it. */

import { statSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { checkFile, systemErrorCode, UntrustedPathError } from '@livery/core/plugin'
import { Fault, faultFrom } from '../schema/fault.ts'
import type { PluginModule } from './messages.ts'
import { toWire } from './wire-error.ts'

/** The URL of a file without symbolic links, or what is wrong with the specifier. */
export type Resolved = { readonly href: string } | { readonly fault: Fault }

const PLACEHOLDER = 'livery:plugin'

/** Resolves as an import in a file of that folder would; our own packages are ignored. */
export function resolveModule({ specifier, parent }: PluginModule): Resolved {
  const parentURL = pathToFileURL(parent).href
  const folder = dirname(parent)
  const hooks = registerHooks({
    resolve: (wanted, context, next) =>
      wanted === PLACEHOLDER ? next(specifier, { ...context, parentURL }) : next(wanted, context),
  })
  try {
    const href = import.meta.resolve(PLACEHOLDER)
    if (!href.startsWith('file:'))
      return { fault: new Fault('is not a file', 'Name a package, or a path such as ./my-ca.mjs') }
    const file = fileURLToPath(href)
    const found = statSync(file, { throwIfNoEntry: false })
    if (found?.isFile()) {
      checkFile(file, found, { shared: false })
      return { href }
    }
    return { fault: new Fault(`is not found: there is no file ${file}`, 'Correct the path') }
  } catch (error) {
    if (systemErrorCode(error) === 'ERR_MODULE_NOT_FOUND')
      return {
        fault: new Fault(
          `is not found as a package from ${folder}`,
          'For another plugin install its package, or name its file, such as ./my-ca.mjs',
        ),
      }
    if (error instanceof UntrustedPathError) {
      const { reason, remedy } = faultFrom(error.message)
      return { fault: new Fault(`is not loaded, since others could have written it: ${reason}`, remedy) }
    }
    const reason = `cannot be found from ${folder}: ${toWire(error).message}`
    return { fault: new Fault(reason, 'Correct the name') }
  } finally {
    hooks.deregister()
  }
}
