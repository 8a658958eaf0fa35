/** Finds keys that a configuration writes for a module that this build lacks. */
import { ConfigError, type Problem } from '../schema/config-error.ts'
import { isList, isMap, Location, plain } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { factsOf, type Shape, unwrapped } from '../schema/shape.ts'
import type { LoadedConfig } from './load.ts'
import { settingsSchema } from './schema.ts'

/** Throws a {@link ConfigError} for each key whose module is not in `modules`. */
export function refuseUnreadKeys({ root }: Pick<LoadedConfig, 'root'>, modules: ReadonlySet<string>): void {
  const problems = unreadKeys(settingsSchema, new Location(root), modules)
  if (problems.length > 0) throw new ConfigError(problems)
}

function unreadKeys(schema: Shape, at: Location, modules: ReadonlySet<string>): readonly Problem[] {
  const { node } = at
  const { entries = {}, item } = unwrapped(schema, node && plain(node))
  if (isList(node)) return item ? node.value.flatMap((_, index) => unreadKeys(item, at.child(index), modules)) : []
  if (!isMap(node)) return []
  return Object.entries(entries).flatMap(([name, entry]) => {
    const key = at.child(name)
    const { module } = factsOf(entry)
    if (module === undefined || modules.has(module)) return unreadKeys(entry, key, modules)
    if (!key.node || key.origin.kind === 'default') return []
    return [key.problem(new Fault(`this build of livery has no module "${module}", which reads it`, 'Remove it'))]
  })
}
