/** Completes the written configuration: the settings by their schema, the section `ca` by its plugins. */
import { basename, dirname, join } from 'node:path'
import { complete, type Place } from '../schema/complete.ts'
import { type ConfigNode, changeAt, isList, isMap, withKey } from '../schema/config-tree.ts'
import { markSecrets } from '../schema/plugin-schema.ts'
import type { Schema } from '../schema/schema-parts.ts'
import { UNIX_PREFIX } from '../schema/values.ts'
import type { CASection, SectionShape } from './ca-section.ts'
import { settingsSchema } from './schema.ts'

/** A socket, or its path. */
const SOCKETS = [
  ['sockets', '*'],
  ['identities', '*', 'socket'],
]

/** All keys except the section `ca`. */
export function completeSettings(written: ConfigNode, place: Place): ConfigNode {
  const completed = complete(settingsSchema, written, place)
  const folder = socketFolder(completed)
  return changeAt(completed, ['admin', 'address'], node =>
    node.origin.kind !== 'default' || folder === undefined
      ? node
      : { ...node, value: `${UNIX_PREFIX}${join(folder, basename(String(node.value)))}` },
  )
}

/**
 * The folder of the first socket: only root and the agent's user can put another socket in it. Pods mount the folder of a socket that
 * identifies them, so there it is the one above.
 */
function socketFolder(root: ConfigNode): string | undefined {
  const folders: string[] = []
  for (const place of SOCKETS)
    changeAt(root, place, node => {
      const { path, identify } = isMap(node) ? Object.fromEntries(node.value) : { path: node }
      // A range has `{name}` in the path.
      const folder = typeof path?.value === 'string' ? dirname(`${path.value.split('{', 1)[0]}-`) : undefined
      if (folder !== undefined) folders.push(identify ? dirname(folder) : folder)
      return node
    })
  return folders[0]
}

/** The section `ca` by the schema that its plugins make, with its secrets marked. */
export function completeSection(
  shape: SectionShape,
  schema: Schema<CASection>,
  section: ConfigNode,
  place: Place,
): ConfigNode {
  return withSecretsMarked(shape, complete(schema, section, place))
}

function withSecretsMarked({ secretKeys, members }: SectionShape, section: ConfigNode): ConfigNode {
  const marked = markSecrets(secretKeys, section)
  const cas = isMap(marked) ? marked.value.get('cas') : undefined
  if (!isMap(marked) || !isList(cas) || members.length === 0) return marked
  const value = cas.value.map((ca, index) => {
    const member = members[index]
    return member ? withSecretsMarked(member, ca) : ca
  })
  return withKey(marked, 'cas', { ...cas, value })
}
