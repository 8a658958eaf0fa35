/** Fills in what nobody has written, and makes paths absolute. */
import { dirname, resolve } from 'node:path'
import { TLS_KEYS } from '../schema/common-ca-keys.ts'
import { UNWRITTEN } from '../schema/config-error.ts'
import {
  type ConfigNode,
  changeAt,
  isList,
  isMap,
  nodeOf,
  overlay,
  type TreeObject,
  withKey,
} from '../schema/config-tree.ts'
import { changeOptions, fillDefault, markSecret, type OptionChange } from '../schema/plugin-schema.ts'
import { isPem, UNIX_PREFIX } from '../schema/values.ts'
import type { SectionShape } from './ca-section.ts'
import { defaults, OPTIONAL_DEFAULTS } from './defaults.ts'
import type { ConfigSources } from './layers.ts'

/** `*` is each entry of a list. The plugin of `ca` knows its own paths. */
const PATHS = [
  ['admin', 'tokenFile'],
  ['files', 'allow', '*'],
  ['files', 'wellKnown', '*'],
  ['identities', '*', 'output', 'directory'],
  ['identities', '*', 'output', 'reload', 'pidFile'],
  ['identities', '*', 'socket'],
  ['identities', '*', 'socket', 'path'],
  ['identities', '*', 'tokenFile'],
  ['output', 'directory'],
  ['output', 'reload', 'pidFile'],
  ['sharedFolders', '*'],
  ['sockets', '*', 'path'],
  ['store', 'bootstrap'],
  ['store', 'directory'],
  ['trust', 'anchors', '*'],
  ['trust', 'crl'],
  ['trust', 'federated', '*', 'crl'],
  ['trust', 'federated', '*', 'file'],
  ['trust', 'federated', '*', 'rootCert'],
]

/** A socket, or its path. */
const SOCKETS = [
  ['sockets', '*'],
  ['identities', '*', 'socket'],
]

/** All keys but those of the section `ca`. */
export function completeSettings(written: ConfigNode, { workingDirectory, terminal }: ConfigSources): ConfigNode {
  const filled = overlay(nodeOf(defaults({ terminal }), UNWRITTEN), written)
  const withOptional = OPTIONAL_DEFAULTS.reduce((node, [path, lower]) => changeAt(node, path, mapping(lower)), filled)
  const absolutes = PATHS.reduce(
    (node, path) => changeAt(node, path, value => absolute(value, workingDirectory)),
    withOptional,
  )
  return changeAt(absolutes, ['admin', 'address'], node =>
    absoluteAddress(node, (node.origin.kind === 'default' && socketFolder(absolutes)) || workingDirectory),
  )
}

/** The folder of the first socket: nobody but root and the agent's user can put another in it. */
function socketFolder(root: ConfigNode): string | undefined {
  const paths: unknown[] = []
  for (const place of SOCKETS)
    changeAt(root, place, node => {
      paths.push(isMap(node) ? node.value.get('path')?.value : node.value)
      return node
    })
  const first = paths.find(path => typeof path === 'string')
  // A range has `{name}` in the path.
  return first === undefined ? undefined : dirname(`${first.split('{', 1)[0]}-`)
}

function mapping(lower: TreeObject): (node: ConfigNode) => ConfigNode {
  const below = nodeOf(lower, UNWRITTEN)
  return node => (isMap(node) ? overlay(below, node) : node)
}

/** The section `ca` by the keys of its plugins, with its secrets marked. */
export function completeSection(shape: SectionShape, section: ConfigNode, workingDirectory: string): ConfigNode {
  const makeAbsolute: OptionChange = (option, value) => {
    if (!value || option.type !== 'path' || (option === TLS_KEYS.rootCert && isNoFile(value))) return value
    return absolute(value, workingDirectory)
  }
  const filled = changeOptions(shape.keys, section, fillDefault)
  const marked = changeOptions(shape.secretKeys, changeOptions(shape.keys, filled, makeAbsolute), markSecret)
  const cas = isMap(marked) ? marked.value.get('cas') : undefined
  if (!isMap(marked) || !isList(cas) || shape.members.length === 0) return marked
  const members = shape.members.map((member, index) => {
    return completeSection(member, cas.value[index] ?? { value: null, origin: cas.origin }, workingDirectory)
  })
  return withKey(marked, 'cas', { ...cas, value: members })
}

/** Paths of the file start at the file, those of flags and variables at the working directory. */
function absolute(node: ConfigNode, workingDirectory: string): ConfigNode {
  const { value, origin } = node
  if (typeof value !== 'string' || value === '' || isPem(value)) return node
  return { ...node, value: resolve(origin.kind === 'file' ? dirname(origin.file) : workingDirectory, value) }
}

function absoluteAddress(node: ConfigNode, workingDirectory: string): ConfigNode {
  const { value } = node
  if (typeof value !== 'string' || !value.startsWith(UNIX_PREFIX) || value === UNIX_PREFIX) return node
  const path = absolute({ ...node, value: value.slice(UNIX_PREFIX.length) }, workingDirectory)
  return { ...node, value: `${UNIX_PREFIX}${path.value}` }
}

function isNoFile({ value }: ConfigNode): boolean {
  return value === 'system'
}
