/** The effective configuration as YAML, each value with its origin. */
import { hideUserinfo } from '@livery/core/plugin'
import { Document, isScalar, isSeq, isMap as isYamlMap } from 'yaml'
import { formatOrigin } from '../schema/config-error.ts'
import { type ConfigNode, formatPath, isList, isMap, type Path, type Tree } from '../schema/config-tree.ts'
import type { LoadedConfig } from './load.ts'

/** YAML that the agent would read back, with secrets masked. */
export function printConfig({ root, config }: LoadedConfig): string {
  const document = new Document(masked(root))
  comment(document.contents, root)
  const switches = `# keys as ${config.keyFormat} (PKCS8_KEY), generator ${config.keyGenerator} (LIVERY_KEYGEN)\n`
  return document.toString({ lineWidth: 0, flowCollectionPadding: true }) + switches
}

/** The same configuration as JSON. */
export function configJson({ root, config, file }: LoadedConfig): object {
  const { keyFormat, keyGenerator } = config
  return {
    file: file ?? null,
    config: masked(root),
    origins: Object.fromEntries(origins(root, [])),
    keyFormat,
    keyGenerator,
    identities: config.identities.length,
  }
}

function origins(node: ConfigNode, path: Path): [path: string, origin: string][] {
  if (isMap(node)) return [...node.value].flatMap(([key, child]) => origins(child, [...path, key]))
  if (isList(node)) return node.value.flatMap((item, index) => origins(item, [...path, index]))
  return [[formatPath(path), formatOrigin(node.origin)]]
}

/** `printed`: the library's node for `node`. */
function comment(printed: unknown, node: ConfigNode | undefined): void {
  if (isYamlMap(printed) && isMap(node)) {
    for (const { key, value } of printed.items) comment(value, node.value.get(String(key)))
  } else if (isSeq(printed) && isList(node)) {
    for (const [index, item] of printed.items.entries()) comment(item, node.value[index])
  } else if (isScalar(printed) && node) {
    printed.comment = ` ${formatOrigin(node.origin)}`
  }
}

function masked(node: ConfigNode): Tree {
  if (isList(node)) return node.value.map(masked)
  if (isMap(node)) return Object.fromEntries([...node.value].map(([key, child]) => [key, masked(child)]))
  if (node.secret) return '***'
  const value = node.value as Exclude<ConfigNode['value'], object> | null
  return typeof value === 'string' ? hideUserinfo(value) : value
}
