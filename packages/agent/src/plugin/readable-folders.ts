/** The folders that a plugin's process may read: code of the agent and of the plugin. A plugin without a package gets no other file. */
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const OWN_PACKAGE = fileURLToPath(new URL('../..', import.meta.url))

/** Absolute paths without symbolic links. `file` is the plugin's module, if it was found. */
export function readableFolders(file: string | undefined): readonly string[] {
  const shared = ['@livery/core', '@livery/ca-plugins/support'].map(
    specifier => packageOf(fileURLToPath(import.meta.resolve(specifier))) ?? OWN_PACKAGE,
  )
  const ours = [OWN_PACKAGE, ...shared].map(folder => realpathSync(folder))
  const theirs = file === undefined ? [] : [packageOf(file) ?? file]
  const dependencies = [...ours, ...(file === undefined ? [] : [dirname(file)])].flatMap(modulesAbove)
  return [...new Set([...ours, ...theirs, ...dependencies])]
}

/** The folder of the nearest `package.json` above, except `/`. */
function packageOf(file: string): string | undefined {
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder))
    if (existsSync(join(folder, 'package.json'))) return folder
  return undefined
}

/** The folders in which an import of `folder` looks for packages. */
function modulesAbove(folder: string): string[] {
  const above = dirname(folder) === folder ? [] : modulesAbove(dirname(folder))
  const own = join(folder, 'node_modules')
  return existsSync(own) ? [realpathSync(own), ...above] : above
}
