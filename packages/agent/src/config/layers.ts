/** Merges flag, environment and file, in that precedence; each value keeps its origin. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { ConfigError, formatOrigin, type Origin, UNWRITTEN } from '../schema/config-error.ts'
import {
  type ConfigNode,
  isMap,
  Location,
  type MapNode,
  nodeOf,
  overlay,
  type Path,
  type Tree,
} from '../schema/config-tree.ts'
import { readDocument } from '../schema/document.ts'
import type { Environment, Setting } from './environment.ts'
import { environmentSettings, sidecarSettings } from './environment-settings.ts'
import { ISTIOD, istioKeys } from './istio-profile.ts'

/** Where to look for a configuration. */
export interface ConfigSources {
  /** `--config`. */
  readonly file?: string | undefined
  /** `--admin`. */
  readonly admin?: string | undefined
  /** `--takeover`. */
  readonly takeover?: boolean | undefined
  /** The argument of `ca test`, which overrides `ca.plugin`; no file is needed then. */
  readonly plugin?: string | undefined
  readonly environment: Environment
  /** The base of relative paths in flags and variables, and the folder of `livery.yaml`. */
  readonly workingDirectory: string
  /** Whether logs go to a terminal. */
  readonly terminal: boolean
  /** Aborts what a plugin from a module is asked. */
  readonly signal?: AbortSignal
}

export interface Layers {
  /** The file that was read, absolute. */
  readonly file: string | undefined
  /** SHA-256 of its bytes, hex. */
  readonly digest: string | undefined
  readonly root: MapNode
  readonly warnings: readonly string[]
}

/** The file to read: `--config`, `LIVERY_CONFIG`, `livery.yaml` in the working directory, or none. */
export function configFile({ file, environment, workingDirectory }: ConfigSources): string | undefined {
  const named = file ?? (environment['LIVERY_CONFIG'] || undefined)
  if (named !== undefined) return resolve(workingDirectory, named)
  const usual = resolve(workingDirectory, 'livery.yaml')
  return existsSync(usual) ? usual : undefined
}

/** Reads all layers; rejects with a {@link ConfigError} if there is nothing to read, or the file cannot be read. */
export async function readLayers(sources: ConfigSources): Promise<Layers> {
  const file = configFile(sources)
  const { root: written, digest } = await readFile(file, sources.signal)
  const below = file === undefined ? withSettings(written, sidecar(sources)) : withProfile(written, sources)
  const { root, warnings } = withEnvironment(withPluginFlag(below, sources), sources)
  return { file, digest, root: withFlags(root, sources), warnings }
}

function withFlags(root: MapNode, { admin, takeover }: ConfigSources): MapNode {
  const flags: readonly (readonly [Path, Tree | undefined, string])[] = [
    [['admin', 'address'], admin, '--admin'],
    [['sds', 'takeover'], takeover, '--takeover'],
  ]
  return flags.reduce(
    (below, [path, value, flag]) =>
      value === undefined ? below : withValue(below, path, value, { kind: 'flag', flag }),
    root,
  )
}

async function readFile(
  file: string | undefined,
  signal: AbortSignal | undefined,
): Promise<{ readonly root: MapNode; readonly digest: string | undefined }> {
  if (file === undefined) return { root: { value: new Map(), origin: UNWRITTEN }, digest: undefined }
  const { root, digest } = await readDocument(file, signal)
  if (isMap(root)) return { root, digest }
  const fault = { reason: 'is not a mapping', remedy: 'Write keys such as "trustDomain: cluster.local"' }
  throw new ConfigError([new Location(root).problem(fault)])
}

function sidecar({ environment, workingDirectory, plugin }: ConfigSources): Setting[] {
  const settings = sidecarSettings(environment, workingDirectory)
  if (settings) return settings
  if (plugin !== undefined) return []
  const reason = `there is none: no --config, no LIVERY_CONFIG, no livery.yaml in ${workingDirectory}, and SERVICE_ACCOUNT and POD_NAMESPACE are not both set`
  throw new ConfigError([{ origin: UNWRITTEN, path: '', reason, remedy: 'Name a file with --config' }])
}

/** The profile ranks below the file's keys. It applies to istiod's plugin only. */
function withProfile(written: MapNode, { environment, workingDirectory }: ConfigSources): MapNode {
  const valueAt = (...path: Path) => new Location(written, path).node?.value
  if (valueAt('profile') !== 'istio') return written
  const plugin = valueAt('ca', 'plugin') ?? 'citadel'
  const isOfNode = valueAt('kubernetes') !== undefined
  const hasTokensOfPods =
    valueAt('ca', 'credentials', 'source') === 'workload-token' ||
    valueAt('ca', 'credentials', 'workloadToken') !== undefined
  const keys = [
    ...istioKeys(environment, workingDirectory).filter(([[key]]) => key !== 'identities' || !isOfNode),
    ...(plugin === 'citadel' ? ISTIOD : []),
    // A node's agent asks for the identities of all its pods, unless it has each pod's token.
    ...(plugin === 'citadel' && isOfNode && !hasTokensOfPods ? [[['ca', 'impersonate'], true] as const] : []),
  ]
  const origin = { kind: 'profile', profile: 'istio' } as const
  const empty: MapNode = { value: new Map(), origin: UNWRITTEN }
  const laid = overlay(
    keys.reduce<MapNode>((below, [path, value]) => withValue(below, path, value, origin), empty),
    written,
  )
  return isMap(laid) ? laid : written
}

function withPluginFlag(root: MapNode, { plugin }: ConfigSources): MapNode {
  return plugin === undefined ? root : withValue(root, ['ca', 'plugin'], plugin, { kind: 'flag', flag: '[plugin]' })
}

/**
 * Variables of the CA are for `citadel`, and do not replace a plugin that a flag names. The node name sets a key of an
 * existing section `kubernetes`, and adds no section.
 */
function withEnvironment(tree: MapNode, { environment, plugin }: ConfigSources): Pick<Layers, 'root' | 'warnings'> {
  const isKubernetes = new Location(tree, ['kubernetes']).node !== undefined
  const settings = withPlugin(tree, environmentSettings(environment)).filter(
    setting =>
      (plugin === undefined || !isAt(setting, 'ca', 'plugin')) && (isKubernetes || setting.path[0] !== 'kubernetes'),
  )
  const root = withSettings(
    tree,
    settings.filter(setting => isAt(setting, 'ca', 'plugin')),
  )
  const named = new Location(root, ['ca', 'plugin'])
  const name = named.node?.value
  const isCitadel = name === undefined || name === 'citadel'
  const others = settings.filter(setting => !isAt(setting, 'ca', 'plugin'))
  const ignored = isCitadel ? [] : others.filter(({ path }) => path[0] === 'ca')
  const place = formatOrigin(named.origin)
  return {
    root: withSettings(
      root,
      others.filter(setting => !ignored.includes(setting)),
    ),
    warnings: ignored.map(
      ({ variable }) => `${variable} is set, but ca.plugin is ${name} (${place}): it has no effect.`,
    ),
  }
}

/** A CA address in the environment selects `citadel` if no plugin is written. */
function withPlugin(root: MapNode, settings: Setting[]): Setting[] {
  const address = settings.find(setting => isAt(setting, 'ca', 'address'))
  const named =
    new Location(root, ['ca', 'plugin']).node !== undefined || settings.some(setting => isAt(setting, 'ca', 'plugin'))
  return address && !named ? [{ ...address, path: ['ca', 'plugin'], value: 'citadel' }, ...settings] : settings
}

function isAt({ path }: Setting, ...keys: readonly string[]): boolean {
  return path.length === keys.length && keys.every((key, index) => path[index] === key)
}

function withSettings(root: MapNode, settings: readonly Setting[]): MapNode {
  return settings.reduce<MapNode>((below, { path, value, variable, text }) => {
    return withValue(below, path, value, { kind: 'environment', variable, text })
  }, root)
}

function withValue(root: MapNode, path: Path, value: Tree, origin: Origin): MapNode {
  const nested = path.reduceRight<ConfigNode>(
    (inner, key) => ({ value: new Map([[String(key), inner]]), origin: UNWRITTEN }),
    nodeOf(value, origin),
  )
  const laid = overlay(root, nested)
  return isMap(laid) ? laid : root
}
