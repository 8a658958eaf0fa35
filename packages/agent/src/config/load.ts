/** The one way to a checked configuration. */
import { join } from 'node:path'
import { hideUserinfo } from '@livery/core'
import { MAX_PATH_BYTES } from '@livery/sds-server/defaults'
import * as v from 'valibot'
import type { PluginPlace } from '../plugin/load-plugin.ts'
import { ConfigError, type ConfigProblem, type Finding, type Origin } from '../schema/config-error.ts'
import { childPath, type TreeObject } from '../schema/document.ts'
import { formatHostPort, type ListenAddress } from '../schema/values.ts'
import { checkCASection } from './ca-check.ts'
import { type CASection, caSchema, loadCAForm, showsSecret } from './ca-section.ts'
import { type EnvironmentSwitches, environmentSwitches, environmentWarnings } from './environment.ts'
import { type ConfiguredIdentity, type ExpandedIdentities, expandIdentities } from './identities.ts'
import { type ConfigSources, type Layers, readLayers } from './layers.ts'
import { type Settings, settingsSchema } from './schema.ts'

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
  /** The effective configuration in the file's own form, paths absolute. */
  readonly tree: TreeObject
  /** Where the value at a path (`rotation.ratio`) comes from. */
  origin(path: string): Origin
  /** Whether what stands at a path is not to be shown. */
  isSecret(path: string): boolean
  /** What the operator should know, a line each. */
  readonly warnings: readonly string[]
}

/**
 * Loads the configuration, and the plugin that it names; rejects with a {@link ConfigError} with every fault that it
 * finds.
 */
export async function loadConfig(sources: ConfigSources): Promise<LoadedConfig> {
  const { layers, settings, problems } = await readSettings(sources)
  const { ca, tree, isSecret } = await readCA(layers, sources, problems)
  if (!settings || !ca) throw new ConfigError(problems)
  const { identities, sockets, findings } = expandIdentities(settings.identities, settings.trustDomain)
  const faults = [
    ...findings,
    ...checkCeiling(identities, settings),
    ...checkSockets(settings, sockets),
    ...checkPairs(settings),
  ]
  const { origin } = layers
  problems.push(...faults.map(fault => ({ ...fault, origin: origin(fault.path) })))
  if (problems.length > 0) throw new ConfigError(problems)
  const { file, digest, warnings } = layers
  return {
    config: { ...settings, ca, identities, ...environmentSwitches(sources.environment) },
    file,
    digest,
    tree,
    origin,
    isSecret,
    warnings: [...warnings, ...environmentWarnings(sources.environment), ...exposures(settings)],
  }
}

/** As much of a configuration as it takes to ask the CA: it need not name sockets or identities. */
export interface LoadedCA {
  readonly config: Pick<Config, 'ca' | 'trustDomain' | 'keyType' | 'identities' | 'sharedFolders'>
  origin(path: string): Origin
  readonly warnings: readonly string[]
}

/** Loads the section `ca` and the plugin that it names; rejects with a {@link ConfigError}. */
export async function loadCA(sources: ConfigSources): Promise<LoadedCA> {
  const { layers, settings, problems } = await readSettings(sources)
  const { ca } = await readCA(layers, sources, problems)
  if (!settings || !ca || problems.length > 0) throw new ConfigError(problems)
  const { trustDomain, keyType, sharedFolders } = settings
  const { identities } = expandIdentities(settings.identities, trustDomain)
  return {
    config: { ca, trustDomain, keyType, identities, sharedFolders },
    origin: layers.origin,
    warnings: layers.warnings,
  }
}

/** The address of the admin endpoint, without a look at what the plugin makes of `ca`; rejects with a {@link ConfigError}. */
export async function loadAdminAddress(sources: ConfigSources): Promise<ListenAddress> {
  const { settings, problems } = await readSettings(sources)
  if (!settings) throw new ConfigError(problems)
  return settings.admin.address
}

interface ReadSettings {
  readonly layers: Layers
  /** `undefined` if there are problems. */
  readonly settings: Settings | undefined
  readonly problems: ConfigProblem[]
}

async function readSettings(sources: ConfigSources): Promise<ReadSettings> {
  const layers = await readLayers(sources)
  environmentSwitches(sources.environment)
  const result = v.safeParse(settingsSchema, layers.tree)
  if (result.success) return { layers, settings: result.output, problems: [] }
  const problems = result.issues.map(issue => toProblem(issue, '', layers.origin))
  return { layers, settings: undefined, problems }
}

interface ReadCA {
  /** `undefined` if there are problems. */
  readonly ca: CASection | undefined
  readonly tree: TreeObject
  isSecret(path: string): boolean
}

async function readCA(layers: Layers, sources: ConfigSources, problems: ConfigProblem[]): Promise<ReadCA> {
  const { origin, file } = layers
  const refuse = (finding: Finding): void => {
    const own = origin(finding.path)
    // A key that is missing is to be added to the file.
    problems.push({ ...finding, origin: own.kind === 'default' && file !== undefined ? { kind: 'file', file } : own })
  }
  const form = await loadCAForm(layers.tree['ca'], path => placeOf(origin(path), sources))
  if ('findings' in form) {
    form.findings.forEach(refuse)
    return { ca: undefined, tree: layers.tree, isSecret: () => true }
  }
  const isSecret = (path: string): boolean => showsSecret(form, path)
  const tree = layers.withKeysOfCA(form)
  const result = v.safeParse(caSchema(form), tree['ca'])
  if (!result.success) {
    problems.push(...result.issues.map(issue => toProblem(issue, 'ca', origin, isSecret)))
    return { ca: undefined, tree, isSecret }
  }
  for (const finding of await checkCASection(result.output)) {
    const own = origin(finding.path)
    // A default is at fault only by what stands beside it.
    problems.push({ ...finding, origin: own.kind === 'default' ? origin('ca') : own })
  }
  return { ca: result.output, tree, isSecret }
}

/** Modules are looked for from the file that names them; those of flags and variables from the working directory. */
function placeOf(origin: Origin, { workingDirectory, signal }: ConfigSources): PluginPlace {
  return { file: origin.kind === 'file' ? origin.file : join(workingDirectory, 'livery.yaml'), signal }
}

function toProblem(
  issue: v.BaseIssue<unknown>,
  at: string,
  origin: (path: string) => Origin,
  isSecret: (path: string) => boolean = () => false,
): ConfigProblem {
  const path = (issue.path ?? []).reduce((parent, item) => childPath(parent, item.key as string | number), at)
  const from = origin(path)
  const value = isSecret(path) ? undefined : shownValue(issue.input, from)
  const leads = value === undefined || issue.message.startsWith('unknown key') || issue.message.startsWith('is missing')
  return { origin: from, path, text: leads ? issue.message : `${value} ${issue.message}` }
}

/** The value as it was written; `undefined` where it says nothing. */
function shownValue(input: unknown, from: Origin): string | undefined {
  if (input === null || input === undefined) return undefined
  if (from.kind === 'environment') return JSON.stringify(hideUserinfo(from.text))
  const json = JSON.stringify(input, (_, value: unknown) => (typeof value === 'string' ? hideUserinfo(value) : value))
  return json.length > 120 ? `${json.slice(0, 120)}…` : json
}

function checkCeiling(identities: readonly ConfiguredIdentity[], { maxIdentities }: Settings): Finding[] {
  if (identities.length <= maxIdentities) return []
  const text = `${maxIdentities} is fewer than the ${identities.length} under identities. Write ${identities.length} or more, at about 12 KB of memory each.`
  return [{ path: 'maxIdentities', text }]
}

function checkSockets(settings: Settings, ownSockets: ExpandedIdentities['sockets']): Finding[] {
  const findings: Finding[] = []
  const places = [
    ...settings.sockets.map(({ path }, index) => ({ socket: path, path: `sockets[${index}].path` })),
    ...ownSockets,
  ]
  const { address } = settings.admin
  if ('path' in address) places.unshift({ socket: address.path, path: 'admin.address' })
  const seen = new Set<string>()
  // One finding for each key: a range has a socket for each of its identities.
  const found = new Set<string>()
  const refuse = (path: string, text: string): void => {
    if (!found.has(path)) findings.push({ path, text })
    found.add(path)
  }
  for (const { socket, path } of places) {
    const bytes = Buffer.byteLength(socket)
    if (bytes > MAX_PATH_BYTES)
      refuse(path, `${socket} is ${bytes} bytes long, and the kernel allows ${MAX_PATH_BYTES}. Choose a shorter path.`)
    if (seen.has(socket)) refuse(path, `${socket} is the path of another socket too. Give each its own.`)
    seen.add(socket)
  }
  if (places.every(({ path }) => path === 'admin.address')) {
    const text = 'nothing would be served: there is no socket. Add one under sockets, or give an identity its own.'
    findings.push({ path: 'sockets', text })
  }
  const onDemand = settings.sockets.some(socket => socket.onDemand)
  if (settings.identities.length === 0 && !onDemand) {
    findings.push({ path: 'identities', text: 'nothing would be served: there is no identity. Add one.' })
  }
  return findings
}

function checkPairs({ retry, rotation, names, admin }: Settings): Finding[] {
  const findings: Finding[] = []
  for (const key of ['mode', 'owner', 'group'] as const) {
    if ('path' in admin.address || admin[key] === undefined) continue
    findings.push({ path: `admin.${key}`, text: 'is for a UNIX socket. Write address: unix:/path, or remove it.' })
  }
  if (names.default === names.root)
    findings.push({ path: 'names.root', text: 'is the same as names.default. Choose another.' })
  if (retry.min > retry.max) findings.push({ path: 'retry.min', text: 'is longer than retry.max. Swap them.' })
  if (rotation.ratio - rotation.jitter <= 0 || rotation.ratio + rotation.jitter >= 1) {
    const text = `${rotation.ratio} ± jitter ${rotation.jitter} leaves the lifetime. Keep ratio - jitter over 0 and ratio + jitter under 1.`
    findings.push({ path: 'rotation.ratio', text })
  }
  return findings
}

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '::1'])

function exposures({ admin }: Settings): string[] {
  if ('path' in admin.address || LOOPBACK.has(admin.address.host)) return []
  const address = formatHostPort(admin.address)
  return [
    `admin.address ${address} is reachable from other machines and asks nobody who they are. Use 127.0.0.1, and health for probes.`,
  ]
}
