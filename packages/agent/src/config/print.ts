/** The effective configuration as YAML, each value with where it came from. */
import { hideUserinfo } from '@livery/core'
import { Document, isMap, isScalar, isSeq } from 'yaml'
import { formatOrigin, type Origin } from '../schema/config-error.ts'
import { childPath, isTreeObject, type Tree } from '../schema/document.ts'
import type { LoadedConfig } from './load.ts'

/** YAML that the agent would read back, but for secrets, which are masked. */
export function printConfig(loaded: LoadedConfig): string {
  const { origin, config } = loaded
  const document = new Document(masked(loaded))
  comment(document.contents, '', origin)
  const switches = `# keys as ${config.keyFormat} (PKCS8_KEY), generator ${config.keyGenerator} (LIVERY_KEYGEN)\n`
  return document.toString({ lineWidth: 0, flowCollectionPadding: true }) + switches
}

/** The same for programs. */
export function configJson(loaded: LoadedConfig): object {
  const { tree, origin, config, file } = loaded
  const origins: Record<string, string> = {}
  const visit = (value: Tree, path: string): void => {
    if (isTreeObject(value)) for (const [key, child] of Object.entries(value)) visit(child, childPath(path, key))
    else if (Array.isArray(value)) for (const [index, child] of value.entries()) visit(child, childPath(path, index))
    else origins[path] = formatOrigin(origin(path))
  }
  visit(tree, '')
  const { keyFormat, keyGenerator } = config
  return {
    file: file ?? null,
    config: masked(loaded),
    origins,
    keyFormat,
    keyGenerator,
    identities: config.identities.length,
  }
}

function comment(node: unknown, path: string, origin: (path: string) => Origin): void {
  if (isMap(node)) {
    for (const { key, value } of node.items) comment(value, childPath(path, String(key)), origin)
  } else if (isSeq(node)) {
    for (const [index, item] of node.items.entries()) comment(item, childPath(path, index), origin)
  } else if (isScalar(node)) {
    node.comment = ` ${formatOrigin(origin(path))}`
  }
}

function masked({ tree, isSecret }: LoadedConfig): Tree {
  const visit = (value: Tree, path: string): Tree => {
    if (Array.isArray(value)) return value.map((item, index) => visit(item, childPath(path, index)))
    if (isSecret(path) && !isTreeObject(value)) return '***'
    if (!isTreeObject(value)) return typeof value === 'string' ? hideUserinfo(value) : value
    return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, visit(child, childPath(path, key))]))
  }
  return visit(tree, '')
}
