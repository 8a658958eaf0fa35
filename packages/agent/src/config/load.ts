/** The one way to a checked configuration: read, layer, load the plugins, fill in defaults, make paths absolute, check. */
import { dirname, join } from 'node:path'
import type { PluginPlace } from '../plugin/load-plugin.ts'
import { checkNode } from '../schema/check.ts'
import { ConfigError, type Origin, type Problem } from '../schema/config-error.ts'
import { type ConfigNode, isMap, Location, withKey } from '../schema/config-tree.ts'
import { formatHostPort } from '../schema/values.ts'
import { checkCASection } from './ca-check.ts'
import { type CASection, caSchema, loadSectionShape } from './ca-section.ts'
import { checkTogether } from './consistency.ts'
import { type EnvironmentSwitches, environmentSwitches } from './environment.ts'
import { environmentWarnings } from './environment-reports.ts'
import { completeSection, completeSettings } from './fill-defaults.ts'
import { type ConfiguredIdentity, expandIdentities } from './identities.ts'
import { type ConfigSources, type Layers, readLayers } from './layers.ts'
import { oneCallerWarnings } from './one-caller.ts'
import { assignOutputs } from './outputs.ts'
import { type Settings, settingsSchema } from './schema.ts'
import { settleWarnings } from './settle.ts'
import { checkWishes, wishesDnsNames } from './wish-check.ts'

/** The configuration that the agent runs with. Everything is checked and every path is absolute. */
export interface Config extends Omit<Settings, 'identities' | 'ca'>, EnvironmentSwitches {
  readonly identities: readonly ConfiguredIdentity[]
  readonly ca: CASection
}

export interface LoadedConfig {
  readonly config: Config
  /** The file that was read, absolute; `undefined` in sidecar mode. */
  readonly file: string | undefined
  /** SHA-256 of its bytes, hex. */
  readonly digest: string | undefined
  /** The effective configuration in the file's own form, paths absolute, secrets marked. */
  readonly root: ConfigNode
  /** Warnings for the operator, one line each. */
  readonly warnings: readonly string[]
}

/** Loads the configuration and the plugin that it names; rejects with a {@link ConfigError} that lists every problem. */
export async function loadConfig(sources: ConfigSources): Promise<LoadedConfig> {
  const read = await readSettings(sources)
  const { settings } = read
  const { root, ca, problems } = await readCA(read.root, settings, sources)
  if (!settings || !ca) throw new ConfigError([...read.problems, ...problems])
  const at = new Location(root)
  const expanded = expandIdentities(settings.identities, settings.trustDomain, at.child('identities'))
  const { identities, problems: sameOutputs } = assignOutputs(expanded.identities, settings.output, at)
  const together = [...checkTogether(settings, expanded, at), ...checkWishes(settings, ca, at)]
  const all = [...problems, ...expanded.problems, ...sameOutputs, ...together]
  if (all.length > 0) throw new ConfigError(all)
  const { file, digest, warnings } = read.layers
  return {
    config: { ...settings, ca, identities, ...environmentSwitches(sources.environment) },
    file,
    digest,
    root,
    warnings: [
      ...warnings,
      ...environmentWarnings(sources.environment, { isSidecar: file === undefined, profile: settings.profile }),
      ...exposures(settings),
      ...unreadableNames(settings),
      ...settleWarnings(settings, ca),
      ...oneCallerWarnings(settings, identities, ca),
    ],
  }
}

/** The part of a configuration that a call to the CA needs: it need not name sockets or identities. */
export interface LoadedCA {
  readonly config: Pick<Config, 'ca' | 'trustDomain' | 'keyType' | 'identities' | 'sharedFolders'>
  readonly root: ConfigNode
  readonly warnings: readonly string[]
}

/** Loads the section `ca` and the plugin that it names; rejects with a {@link ConfigError}. */
export async function loadCA(sources: ConfigSources): Promise<LoadedCA> {
  const { settings, layers, ...read } = await readSettings(sources)
  const { root, ca, problems } = await readCA(read.root, settings, sources)
  const all = [...read.problems, ...problems]
  if (!settings || !ca || all.length > 0) throw new ConfigError(all)
  const { trustDomain, keyType, sharedFolders } = settings
  const { identities } = expandIdentities(settings.identities, trustDomain, new Location(root, ['identities']))
  return { config: { ca, trustDomain, keyType, identities, sharedFolders }, root, warnings: layers.warnings }
}

/** The section `admin`, without checking `ca` by its plugin; rejects with a {@link ConfigError}. */
export async function loadAdmin(sources: ConfigSources): Promise<Settings['admin']> {
  const { settings, problems } = await readSettings(sources)
  if (!settings) throw new ConfigError(problems)
  return settings.admin
}

interface ReadSettings {
  readonly layers: Layers
  readonly root: ConfigNode
  /** `undefined` if there are problems. */
  readonly settings: Settings | undefined
  readonly problems: readonly Problem[]
}

async function readSettings(sources: ConfigSources): Promise<ReadSettings> {
  const layers = await readLayers(sources)
  environmentSwitches(sources.environment)
  const root = completeSettings(layers.root, sources)
  const checked = checkNode(settingsSchema, new Location(root))
  if ('output' in checked) return { layers, root, settings: checked.output, problems: [] }
  return { layers, root, settings: undefined, problems: checked.refusals }
}

interface ReadCA {
  /** The tree, with the section `ca` as its plugins complete it. */
  readonly root: ConfigNode
  /** `undefined` if there are problems. */
  readonly ca: CASection | undefined
  readonly problems: readonly Problem[]
}

async function readCA(tree: ConfigNode, settings: Settings | undefined, sources: ConfigSources): Promise<ReadCA> {
  const written = new Location(tree, ['ca'])
  const shape = await loadSectionShape(written, origin => placeOf(origin, sources))
  if ('problems' in shape) return { root: tree, ca: undefined, problems: shape.problems }
  const { node } = written
  const schema = caSchema(shape)
  const root = node && isMap(tree) ? withKey(tree, 'ca', completeSection(shape, schema, node, sources)) : tree
  const at = new Location(root, ['ca'])
  const wishesNames = settings !== undefined && wishesDnsNames(settings)
  const checked = checkNode(schema, at)
  if ('refusals' in checked) return { root, ca: undefined, problems: checked.refusals }
  return { root, ca: checked.output, problems: await checkCASection(checked.output, at, wishesNames) }
}

/** A module is looked up from the file that names it, or for flags and variables from the working directory. */
function placeOf(origin: Origin, { workingDirectory, signal }: ConfigSources): PluginPlace {
  return { file: origin.kind === 'file' ? origin.file : join(workingDirectory, 'livery.yaml'), signal }
}

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '::1'])

function exposures({ admin, sockets, identities }: Settings): string[] {
  if ('path' in admin.address) {
    const folder = dirname(admin.address.path)
    const ofPods = [...sockets, ...identities.map(({ socket }) => socket)].find(
      socket => socket?.identify && dirname(socket.path) === folder,
    )
    if (!ofPods) return []
    return [
      `admin.address ${admin.address.path} is in the folder that pods mount for ${ofPods.path}: a pod that runs as root can renew certificates and stop roots there. Name a path in another folder, such as unix:${join(dirname(folder), 'admin.sock')}.`,
    ]
  }
  if (LOOPBACK.has(admin.address.host)) return []
  const address = formatHostPort(admin.address)
  return [
    `admin.address ${address} is reachable from other machines and authenticates nobody. Use 127.0.0.1, and health for probes.`,
  ]
}

/** Bounds of a host name and its labels (RFC 1035, 2.3.4). */
const MAX_LABEL = 63
const MAX_NAME = 253

/** SPIFFE allows names that Go's X.509 library cannot parse as the host of a URI. */
function unreadableNames({ trustDomain }: Settings): string[] {
  const labels = trustDomain.split('.')
  const remedy = 'Use a trust domain that is a DNS name.'
  if (labels.includes(''))
    return [
      `trustDomain ${trustDomain} has a dot at its beginning or end, or two dots together: programs in Go (istiod, SPIRE, go-spiffe) cannot parse its certificates. ${remedy}`,
    ]
  if (trustDomain.length <= MAX_NAME && labels.every(({ length }) => length <= MAX_LABEL)) return []
  return [
    `trustDomain ${trustDomain} has a label of more than ${MAX_LABEL} characters, or more than ${MAX_NAME} in all: programs built with some versions of Go cannot parse its certificates. ${remedy}`,
  ]
}
