/** The differences between two configurations. */
import { isDeepStrictEqual } from 'node:util'
import { childPath, isTreeObject, type Tree, type TreeObject } from '../schema/config-tree.ts'
import { factsOf, type Shape, unwrapped } from '../schema/shape.ts'

/** The paths of the keys that differ, as deep as both sides are mappings: `rotation.ratio`. Never a value. */
export function changedKeys(before: object, after: object, parent = ''): string[] {
  const [olds, news] = [new Map(Object.entries(before)), new Map(Object.entries(after))]
  return [...new Set([...olds.keys(), ...news.keys()])].flatMap(key => {
    const path = childPath(parent, key)
    const [old, now]: unknown[] = [olds.get(key), news.get(key)]
    if (isTreeObject(old) && isTreeObject(now)) return changedKeys(old, now, path)
    return isDeepStrictEqual(old, now) ? [] : [path]
  })
}

/** `tree` without the keys that their entries mark as live. */
export function withoutLive(schema: Shape, tree: Tree): TreeObject {
  const { entries = {} } = unwrapped(schema, tree)
  const fixed: [string, Tree][] = []
  for (const [name, value] of isTreeObject(tree) ? Object.entries(tree) : []) {
    const entry = entries[name]
    if (entry && factsOf(entry).live) continue
    fixed.push([name, entry && isTreeObject(value) ? withoutLive(entry, value) : value])
  }
  return Object.fromEntries(fixed)
}
