/** The configuration as a tree in which every value knows where it was written. */
import { type Origin, type Problem, UNWRITTEN } from './config-error.ts'
import type { Fault } from './fault.ts'

/** Plain data. Objects have no prototype, so that no key of a file can mean more than its text. */
export type Tree = null | boolean | number | string | readonly Tree[] | TreeObject
export interface TreeObject {
  readonly [key: string]: Tree
}

export interface ConfigNode {
  readonly value: null | boolean | number | string | readonly ConfigNode[] | ReadonlyMap<string, ConfigNode>
  readonly origin: Origin
  /** Never shown. */
  readonly secret?: true
}

export interface MapNode extends ConfigNode {
  readonly value: ReadonlyMap<string, ConfigNode>
}

interface ListNode extends ConfigNode {
  readonly value: readonly ConfigNode[]
}

/** Names of keys and indexes of lists, from the root. */
export type Path = readonly (string | number)[]

export function isMap(node: ConfigNode | undefined): node is MapNode {
  return node?.value instanceof Map
}

export function isList(node: ConfigNode | undefined): node is ListNode {
  return Array.isArray(node?.value)
}

export function isTreeObject(value: unknown): value is TreeObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `value` as nodes that all have this origin. */
export function nodeOf(value: Tree, origin: Origin): ConfigNode {
  if (Array.isArray(value)) return { value: value.map((item: Tree) => nodeOf(item, origin)), origin }
  if (!isTreeObject(value)) return { value: value as null | boolean | number | string, origin }
  return { value: new Map(Object.entries(value).map(([key, child]) => [key, nodeOf(child, origin)])), origin }
}

/** The values without their origins. */
export function plain(node: ConfigNode): Tree {
  if (isList(node)) return node.value.map(plain)
  if (isMap(node)) return plainMap(node)
  return node.value as null | boolean | number | string
}

export function plainMap({ value }: MapNode): TreeObject {
  const object: Record<string, Tree> = Object.create(null)
  for (const [key, child] of value) object[key] = plain(child)
  return object
}

export function withKey(node: MapNode, key: string, child: ConfigNode): MapNode {
  return { ...node, value: new Map(node.value).set(key, child) }
}

/** Lays `upper` over `lower`: mappings are merged key by key, any other value of `upper` replaces the lower one. */
export function overlay(lower: ConfigNode, upper: ConfigNode): ConfigNode {
  if (!isMap(lower) || !isMap(upper)) return upper
  const merged = new Map<string, ConfigNode>()
  for (const [key, child] of upper.value) {
    const below = lower.value.get(key)
    merged.set(key, below ? overlay(below, child) : child)
  }
  for (const [key, child] of lower.value) if (!merged.has(key)) merged.set(key, child)
  return { value: merged, origin: upper.origin.kind === 'default' ? lower.origin : upper.origin }
}

/** Applies `change` to each value at `path`, in which `*` is every element of a list or mapping. */
export function changeAt(node: ConfigNode, path: Path, change: (node: ConfigNode) => ConfigNode): ConfigNode {
  const [key, ...rest] = path
  if (key === undefined) return change(node)
  if (key === '*' && isList(node)) return { ...node, value: node.value.map(item => changeAt(item, rest, change)) }
  if (key === '*' && isMap(node))
    return { ...node, value: new Map([...node.value].map(([name, item]) => [name, changeAt(item, rest, change)])) }
  const child = isMap(node) ? node.value.get(String(key)) : undefined
  return child && isMap(node) ? withKey(node, String(key), changeAt(child, rest, change)) : node
}

/** A place in the tree, whether or not a value is there. */
export class Location {
  readonly #root: ConfigNode
  readonly path: Path

  constructor(root: ConfigNode, path: Path = []) {
    this.#root = root
    this.path = path
  }

  child(...keys: Path): Location {
    return new Location(this.#root, [...this.path, ...keys])
  }

  get node(): ConfigNode | undefined {
    const nodes = this.#nodes()
    return nodes.length > this.path.length ? nodes.at(-1) : undefined
  }

  /** The origin of the value here; if it is missing, the origin of the nearest mapping above. */
  get origin(): Origin {
    return this.#nodes().at(-1)?.origin ?? UNWRITTEN
  }

  /** A default is at fault only because of the values around it, and a missing key has to be added there. */
  problem({ reason, remedy }: Fault): Problem {
    const written = this.#nodes().findLast(({ origin }) => origin.kind !== 'default')
    return { origin: written?.origin ?? UNWRITTEN, path: formatPath(this.path), reason, remedy }
  }

  /** The nodes from the root to the value here, as far as they exist. */
  #nodes(): ConfigNode[] {
    const nodes = [this.#root]
    for (const key of this.path) {
      const child = childOf(nodes.at(-1), key)
      if (child === undefined) break
      nodes.push(child)
    }
    return nodes
  }
}

function childOf(node: ConfigNode | undefined, key: string | number): ConfigNode | undefined {
  if (isMap(node)) return node.value.get(String(key))
  return isList(node) ? node.value[Number(key)] : undefined
}

/** `sockets[0].mode` */
export function formatPath(path: Path): string {
  return path.reduce<string>(childPath, '')
}

/** `rotation` + `ratio` → `rotation.ratio`; keys with odd characters are quoted. */
export function childPath(parent: string, key: string | number): string {
  if (typeof key === 'number') return `${parent}[${key}]`
  const name = /^[\w-]+$/.test(key) ? key : JSON.stringify(key)
  return parent === '' ? name : `${parent}.${name}`
}
