/** The one way to a checked configuration. */
import * as v from 'valibot'
import { ConfigError, type ConfigProblem, type Origin } from './config-error.ts'
import { childPath, type TreeObject } from './document.ts'
import { type EnvironmentSwitches, environmentSwitches, environmentWarnings } from './environment.ts'
import { type ConfiguredIdentity, expandIdentities, type Finding } from './identities.ts'
import { type ConfigSources, readLayers } from './layers.ts'
import { type Settings, settingsSchema } from './schema.ts'
import { formatHostPort } from './values.ts'

/** The configuration that the agent runs with. Everything is checked and every path is absolute. */
export interface Config extends Omit<Settings, 'identities' | 'files'>, EnvironmentSwitches {
  readonly identities: readonly ConfiguredIdentity[]
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
  /** What the operator should know, a line each. */
  readonly warnings: readonly string[]
}

/** Loads the configuration; throws a {@link ConfigError} with every fault that it finds. */
export function loadConfig(sources: ConfigSources): LoadedConfig {
  const { file, digest, tree, origin, warnings } = readLayers(sources)
  const switches = environmentSwitches(sources.environment)
  const result = v.safeParse(settingsSchema, tree)
  if (!result.success) throw new ConfigError(result.issues.map(issue => toProblem(issue, origin)))
  const { files: _, ...settings } = result.output
  const { identities, findings } = expandIdentities(settings.identities, settings.trustDomain)
  const faults = [
    ...findings,
    ...checkCeiling(identities, settings),
    ...checkSockets(settings),
    ...checkPairs(settings),
    ...checkCa(settings),
  ]
  if (faults.length > 0) throw new ConfigError(faults.map(fault => ({ ...fault, origin: origin(fault.path) })))
  return {
    config: { ...settings, identities, ...switches },
    file,
    digest,
    tree,
    origin,
    warnings: [...warnings, ...environmentWarnings(sources.environment), ...exposures(settings)],
  }
}

function toProblem(issue: v.BaseIssue<unknown>, origin: (path: string) => Origin): ConfigProblem {
  const path = (issue.path ?? []).reduce((parent, item) => childPath(parent, item.key as string | number), '')
  const from = origin(path)
  const value = path.startsWith('ca.headers.') ? undefined : shownValue(issue.input, from)
  const leads = value === undefined || issue.message.startsWith('unknown key') || issue.message.startsWith('is missing')
  return { origin: from, path, text: leads ? issue.message : `${value} ${issue.message}` }
}

/** The value as it was written; `undefined` where it says nothing. */
function shownValue(input: unknown, from: Origin): string | undefined {
  if (input === null || input === undefined) return undefined
  if (from.kind === 'environment') return JSON.stringify(from.text)
  const json = JSON.stringify(input)
  return json.length > 120 ? `${json.slice(0, 120)}…` : json
}

function checkCeiling(
  identities: readonly ConfiguredIdentity[],
  { maxIdentities }: Omit<Settings, 'files'>,
): Finding[] {
  if (identities.length <= maxIdentities) return []
  const text = `${maxIdentities} is fewer than the ${identities.length} under identities. Write ${identities.length} or more, at about 12 KB of memory each.`
  return [{ path: 'maxIdentities', text }]
}

/** sun_path of unix(7) holds 108 bytes with the final NUL; Node would cut a longer one silently. */
const MAX_SOCKET_PATH = 107

function checkSockets(settings: Omit<Settings, 'files'>): Finding[] {
  const findings: Finding[] = []
  const places = [
    ...settings.sockets.map(({ path }, index) => ({ socket: path, path: `sockets[${index}].path` })),
    ...settings.identities.map((entry, index) => ({
      socket: 'socket' in entry ? entry.socket : undefined,
      path: `identities[${index}].socket`,
    })),
  ]
  const seen = new Set<string>()
  for (const { socket, path } of places) {
    if (socket === undefined) continue
    const bytes = Buffer.byteLength(socket)
    if (bytes > MAX_SOCKET_PATH) {
      const text = `${socket} is ${bytes} bytes long, and the kernel allows ${MAX_SOCKET_PATH}. Choose a shorter path.`
      findings.push({ path, text })
    }
    if (seen.has(socket))
      findings.push({ path, text: `${socket} is the path of another socket too. Give each its own.` })
    seen.add(socket)
  }
  if (seen.size === 0) {
    const text = 'nothing would be served: there is no socket. Add one under sockets, or give an identity its own.'
    findings.push({ path: 'sockets', text })
  }
  const onDemand = settings.sockets.some(socket => socket.onDemand)
  if (settings.identities.length === 0 && !onDemand) {
    findings.push({ path: 'identities', text: 'nothing would be served: there is no identity. Add one.' })
  }
  return findings
}

function checkPairs({ retry, rotation, names }: Omit<Settings, 'files'>): Finding[] {
  const findings: Finding[] = []
  if (names.default === names.root)
    findings.push({ path: 'names.root', text: 'is the same as names.default. Choose another.' })
  if (retry.min > retry.max) findings.push({ path: 'retry.min', text: 'is longer than retry.max. Swap them.' })
  if (rotation.ratio - rotation.jitter <= 0 || rotation.ratio + rotation.jitter >= 1) {
    const text = `${rotation.ratio} ± jitter ${rotation.jitter} leaves the lifetime. Keep ratio - jitter over 0 and ratio + jitter under 1.`
    findings.push({ path: 'rotation.ratio', text })
  }
  return findings
}

/** Istio's port without TLS. */
const PLAINTEXT_ADDRESS = /:15010\/?$/

function checkCa({ ca }: Omit<Settings, 'files'>): Finding[] {
  if (ca.plugin !== 'citadel' || ca.rootCert !== undefined || PLAINTEXT_ADDRESS.test(ca.address)) return []
  const text = 'is missing. Name the file with the root of the CA, or "system" for a CA with a public certificate.'
  return [{ path: 'ca.rootCert', text }]
}

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '::1'])

function exposures({ admin }: Omit<Settings, 'files'>): string[] {
  if (LOOPBACK.has(admin.address.host)) return []
  const address = formatHostPort(admin.address)
  return [
    `admin.address ${address} is reachable from other machines and asks nobody who they are. Use 127.0.0.1, and health for probes.`,
  ]
}
