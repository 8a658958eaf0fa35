/** Lays flag over environment over file over default, and remembers for every key which of them it came from. */
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { PluginOptions } from '@livery/core'
import { ConfigError, formatOrigin, type Origin } from '../schema/config-error.ts'
import { childPath, isTreeObject, readDocument, type Tree, type TreeObject } from '../schema/document.ts'
import { pathsOf, placeIn, withOptionDefaults } from '../schema/plugin-schema.ts'
import { UNIX_PREFIX } from '../schema/values.ts'
import { defaults, OWN_SOCKET_DEFAULTS, overlay, SOCKET_DEFAULTS } from './defaults.ts'
import { type Environment, environmentSettings, type Setting, sidecarSettings } from './environment.ts'

/** Where a configuration is looked for. */
export interface ConfigSources {
  /** `--config`. */
  readonly file?: string | undefined
  /** `--admin`. */
  readonly admin?: string | undefined
  /** The argument of `ca test`, which goes before `ca.plugin`. With it there need not be a file. */
  readonly plugin?: string | undefined
  readonly environment: Environment
  /** Where relative paths of flags and variables start, and where `livery.yaml` is looked for. */
  readonly workingDirectory: string
  /** Whether logs go to a terminal. */
  readonly terminal: boolean
  /** Gives up what a plugin from a module is asked. */
  readonly signal?: AbortSignal
}

export interface Layers {
  /** The file that was read, absolute. */
  readonly file: string | undefined
  /** SHA-256 of its bytes, hex. */
  readonly digest: string | undefined
  /** Every key with its value in the file's own form; paths are absolute, but those under `ca`. */
  readonly tree: TreeObject
  /** `tree` with the defaults and the absolute paths of the keys that `ca` has by its plugin, and its CAs by theirs. */
  withKeysOfCA(form: SectionForm): TreeObject
  /** Where the value at a path (`rotation.ratio`) comes from. */
  origin(path: string): Origin
  readonly warnings: readonly string[]
}

/** The keys of a section, as its plugin tells them, and of the sections in it. */
export interface SectionForm {
  /** Where it stands: `ca`, `ca.cas[0]`. */
  readonly at: string
  readonly keys: PluginOptions
  /** Under the key `cas`. */
  readonly members: readonly SectionForm[]
}

/** The file to read: `--config`, `LIVERY_CONFIG`, `livery.yaml` in the working directory, or none. */
export function configFile({ file, environment, workingDirectory }: ConfigSources): string | undefined {
  const named = file ?? (environment['LIVERY_CONFIG'] || undefined)
  if (named !== undefined) return resolve(workingDirectory, named)
  const usual = resolve(workingDirectory, 'livery.yaml')
  return existsSync(usual) ? usual : undefined
}

/** Reads all layers; rejects with a {@link ConfigError} if there is nothing to read, or the file cannot be. */
export async function readLayers(sources: ConfigSources): Promise<Layers> {
  const file = configFile(sources)
  const origins = new Map<string, Origin>()
  const lowest = defaults(sources)
  noteDefaults(lowest, '', origins)
  const { value, digest } = await readFile(file, origins, sources.signal)
  let tree = overlay(lowest, value) as TreeObject
  const apply = (setting: Setting): void => {
    tree = overlay(tree, nest(setting.path, setting.value)) as TreeObject
    origins.set(pathText(setting.path), { kind: 'environment', variable: setting.variable, text: setting.text })
  }
  if (file === undefined) for (const setting of sidecar(sources)) apply(setting)
  if (sources.plugin !== undefined) {
    tree = overlay(tree, { ca: { plugin: sources.plugin } }) as TreeObject
    origins.set('ca.plugin', { kind: 'flag', flag: '<plugin>' })
  }

  const warnings: string[] = []
  for (const setting of withPlugin(tree, environmentSettings(sources.environment))) {
    const plugin = pluginOf(tree)
    const [section, key] = setting.path
    if (sources.plugin !== undefined && section === 'ca' && key === 'plugin') continue
    // CA_PROVIDER comes before the other variables of the CA, so the plugin is settled when they do.
    if (section === 'ca' && key !== 'plugin' && plugin !== undefined && plugin !== 'citadel') {
      const place = formatOrigin(originOf(origins, 'ca.plugin'))
      warnings.push(`${setting.variable} is set, but ca.plugin is ${plugin} (${place}): it has no effect.`)
    } else apply(setting)
  }
  if (sources.admin !== undefined) {
    tree = overlay(tree, { admin: { address: sources.admin } }) as TreeObject
    origins.set('admin.address', { kind: 'flag', flag: '--admin' })
  }
  const origin = (path: string): Origin => originOf(origins, path)
  const complete = resolvePaths(fillSockets(tree, origins), PATH_KEYS, origin, sources.workingDirectory) as TreeObject
  const note = (path: string): void => void origins.set(path, { kind: 'default' })
  const withKeys = ({ at, keys, members }: SectionForm, given: Tree): Tree => {
    const filled = withOptionDefaults(keys, given, at, note)
    const paths = new Set(pathsOf(keys, at, option => option.type === 'path'))
    const section = resolvePaths(filled, paths, origin, sources.workingDirectory, at)
    if (!isTreeObject(section) || !Array.isArray(section['cas']) || members.length === 0) return section
    const cas = section['cas'].map((ca: Tree, index) => (members[index] ? withKeys(members[index], ca) : ca))
    return { ...section, cas }
  }
  const withKeysOfCA = (form: SectionForm): TreeObject => ({ ...complete, ca: withKeys(form, complete['ca'] ?? {}) })
  return { file, digest, tree: complete, withKeysOfCA, origin, warnings }
}

async function readFile(
  file: string | undefined,
  origins: Map<string, Origin>,
  signal: AbortSignal | undefined,
): Promise<{ readonly value: TreeObject; readonly digest: string | undefined }> {
  if (file === undefined) return { value: {}, digest: undefined }
  const { value, lines, digest } = await readDocument(file, signal)
  for (const [path, line] of lines) if (path !== '') origins.set(path, { kind: 'file', file, line })
  if (isTreeObject(value)) return { value, digest }
  const text = 'holds no mapping. Write keys such as "trustDomain: cluster.local".'
  throw new ConfigError([{ origin: { kind: 'file', file, line: 1 }, path: '', text }])
}

function sidecar({ environment, workingDirectory, plugin }: ConfigSources): Setting[] {
  const settings = sidecarSettings(environment)
  if (settings) return settings
  if (plugin !== undefined) return []
  const text = `there is none: no --config, no LIVERY_CONFIG, no livery.yaml in ${workingDirectory}, and SERVICE_ACCOUNT and POD_NAMESPACE are not both set. Name a file with --config.`
  throw new ConfigError([{ origin: { kind: 'default' }, path: '', text }])
}

/** A CA address in the environment makes `citadel` the plugin where none is written. */
function withPlugin(tree: TreeObject, settings: Setting[]): Setting[] {
  const address = settings.find(setting => pathText(setting.path) === 'ca.address')
  const named = pluginOf(tree) !== undefined || settings.some(setting => pathText(setting.path) === 'ca.plugin')
  return address && !named ? [{ ...address, path: ['ca', 'plugin'], value: 'citadel' }, ...settings] : settings
}

function pluginOf({ ca }: TreeObject): Tree | undefined {
  return isTreeObject(ca) ? ca['plugin'] : undefined
}

function fillSockets(tree: TreeObject, origins: Map<string, Origin>): TreeObject {
  const fill = (socket: Tree, lower: TreeObject, path: string): Tree => {
    if (!isTreeObject(socket)) return socket
    noteDefaults(lower, path, origins)
    return overlay(lower, socket) ?? socket
  }
  const { sockets, identities } = tree
  return {
    ...tree,
    ...(Array.isArray(sockets) && {
      sockets: sockets.map((socket: Tree, index) => fill(socket, SOCKET_DEFAULTS, `sockets[${index}]`)),
    }),
    ...(Array.isArray(identities) && {
      identities: identities.map((identity: Tree, index) =>
        isTreeObject(identity) && identity['socket'] !== undefined
          ? { ...identity, socket: fill(identity['socket'], OWN_SOCKET_DEFAULTS, `identities[${index}].socket`) }
          : identity,
      ),
    }),
  }
}

/** Marks what nobody has written as default, so that it does not count as coming from where its parent is written. */
function noteDefaults(value: Tree, path: string, origins: Map<string, Origin>): void {
  if (!isTreeObject(value)) return
  for (const [key, child] of Object.entries(value)) {
    const childAt = childPath(path, key)
    if (!isTreeObject(child) && !origins.has(childAt)) origins.set(childAt, { kind: 'default' })
    noteDefaults(child, childAt, origins)
  }
}

const PATH_KEYS: ReadonlySet<string> = new Set([
  'admin.tokenFile',
  'identities[].socket',
  'identities[].socket.path',
  'identities[].tokenFile',
  'sharedFolders[]',
  'sockets[].path',
  'store.bootstrap',
  'store.directory',
])

/** Paths of the file start at the file, those of flags and variables at the working directory. `tree` stands at `at`. */
function resolvePaths(
  tree: Tree,
  keys: ReadonlySet<string>,
  origin: (path: string) => Origin,
  workingDirectory: string,
  at = '',
): Tree {
  const absolute = (value: string, path: string): string => {
    const from = origin(path)
    return resolve(from.kind === 'file' ? dirname(from.file) : workingDirectory, value)
  }
  const visit = (value: Tree, path: string): Tree => {
    if (Array.isArray(value)) return value.map((item, index) => visit(item, childPath(path, index)))
    if (isTreeObject(value)) {
      const copy: Record<string, Tree> = Object.create(null)
      for (const [key, child] of Object.entries(value)) copy[key] = visit(child, childPath(path, key))
      return copy
    }
    if (path === 'admin.address' && typeof value === 'string' && value.startsWith(UNIX_PREFIX))
      return value === UNIX_PREFIX ? value : `${UNIX_PREFIX}${absolute(value.slice(UNIX_PREFIX.length), path)}`
    if (typeof value !== 'string' || value === '' || !keys.has(placeIn(at, path))) return value
    if (path === childPath(at, 'rootCert') && (value === 'system' || value.startsWith('-----BEGIN '))) return value
    return absolute(value, path)
  }
  return visit(tree, at)
}

/** The origin of the nearest ancestor that has one. */
function originOf(origins: ReadonlyMap<string, Origin>, path: string): Origin {
  for (let at = path; at !== ''; at = at.replace(/(?:^|\.|(?=\[))(?:[\w-]+|"[^"]*"|\[\d+\])$/, '')) {
    const origin = origins.get(at)
    if (origin) return origin
  }
  return { kind: 'default' }
}

function nest(path: readonly string[], value: Tree): Tree {
  return path.reduceRight<Tree>((inner, key) => ({ [key]: inner }), value)
}

function pathText(path: readonly string[]): string {
  return path.reduce(childPath, '')
}
