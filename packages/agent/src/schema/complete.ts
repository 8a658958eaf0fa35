/** Fills in the defaults of missing keys, and makes paths absolute, as the entries of the keys say. */
import { dirname } from 'node:path'
import { type Origin, UNWRITTEN } from './config-error.ts'
import { type ConfigNode, isList, isMap, nodeOf, plain } from './config-tree.ts'
import type { KeyFacts, Surroundings } from './schema-parts.ts'
import { factsOf, type Shape, unwrapped } from './shape.ts'

export interface Place extends Surroundings {
  /** The base of relative paths in flags and variables. The file's folder is the base of its paths. */
  readonly workingDirectory: string
}

/** `node` with every key filled in. Values that the schema refuses stay as they are. */
export function complete(schema: Shape, node: ConfigNode, place: Place): ConfigNode {
  const { entries, value, item, items, makeAbsolute } = unwrapped(schema, plain(node))
  if (makeAbsolute && typeof node.value === 'string')
    return { ...node, value: makeAbsolute(node.value, folderOf(node.origin, place)) }
  if (isMap(node) && entries) return { ...node, value: completeKeys(entries, node.value, place) }
  const within = (part: Shape | undefined, child: ConfigNode) => (part ? complete(part, child, place) : child)
  if (isMap(node))
    return { ...node, value: new Map([...node.value].map(([name, child]) => [name, within(value, child)])) }
  if (isList(node)) return { ...node, value: node.value.map((child, index) => within(item ?? items?.[index], child)) }
  return node
}

function completeKeys(
  entries: Readonly<Record<string, Shape>>,
  written: ReadonlyMap<string, ConfigNode>,
  place: Place,
): ReadonlyMap<string, ConfigNode> {
  const values = new Map(written)
  for (const [name, schema] of Object.entries(entries)) {
    const value = written.get(name) ?? defaultOf(factsOf(schema), place)
    if (value) values.set(name, complete(schema, value, place))
  }
  return values
}

function defaultOf({ default: given }: KeyFacts, place: Place): ConfigNode | undefined {
  const value = typeof given === 'function' ? given(place) : given
  return value === undefined ? undefined : nodeOf(value, UNWRITTEN)
}

function folderOf(origin: Origin, { workingDirectory }: Place): string {
  return origin.kind === 'file' ? dirname(origin.file) : workingDirectory
}
