/** The differences between two configurations. */
import { isDeepStrictEqual } from 'node:util'
import { childPath, isTreeObject } from '../schema/config-tree.ts'

/** The paths of the keys that differ, as deep as both have mappings: `rotation.ratio`. Never a value. */
export function changedKeys(before: object, after: object, parent = ''): string[] {
  const [olds, news] = [new Map(Object.entries(before)), new Map(Object.entries(after))]
  return [...new Set([...olds.keys(), ...news.keys()])].flatMap(key => {
    const path = childPath(parent, key)
    const [old, now]: unknown[] = [olds.get(key), news.get(key)]
    if (isTreeObject(old) && isTreeObject(now)) return changedKeys(old, now, path)
    return isDeepStrictEqual(old, now) ? [] : [path]
  })
}
