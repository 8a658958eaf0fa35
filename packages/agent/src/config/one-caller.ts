/** Warns if several identities all ask the CA as one caller, and the CA puts the caller's identity into every certificate. */
import type { CASection } from './ca-section.ts'
import type { ConfiguredIdentity } from './identities.ts'
import type { Settings } from './schema.ts'

type Served = Pick<Settings, 'kubernetes' | 'sockets'>

/** One line for each CA that names certificates by their caller, and sees one caller for several identities. */
export function oneCallerWarnings(
  { kubernetes, sockets }: Served,
  identities: readonly ConfiguredIdentity[],
  ca: CASection,
): string[] {
  if (kubernetes) return warningsOf(ca, 'ca', FOR_PODS)
  const sharing = identities.filter(({ tokenFile }) => tokenFile === undefined).length
  const isForSeveral = sharing > 1 || sockets.some(({ onDemand }) => onDemand)
  return isForSeveral ? warningsOf(ca, 'ca', FOR_IDENTITIES) : []
}

const FOR_PODS = { whom: 'all pods', remedy: (key: string) => `Write ${key}.credentials: { source: workload-token }` }
const FOR_IDENTITIES = { whom: 'several identities', remedy: () => 'Give each identity its tokenFile' }

function warningsOf(section: CASection, key: string, sharing: typeof FOR_PODS): string[] {
  const { plugin, options, members } = section
  if (members) return members.flatMap((member, index) => warningsOf(member, `${key}.cas[${index}]`, sharing))
  if (plugin.capabilities.san !== 'caller' || options['impersonate'] === true || !hasOneToken(section)) return []
  const impersonate = 'impersonate' in plugin.options ? `, or set ${key}.impersonate: true` : ''
  return [
    `${key}: ${plugin.name} signs the identity of the caller, and one token is shown for ${sharing.whom}: the agent refuses each certificate of another identity. ${sharing.remedy(key)}${impersonate}.`,
  ]
}

/** Sources that give one token for all workloads; a module's source is unknown. */
const SHARED: ReadonlySet<string> = new Set(['token-file', 'static', 'gce-metadata', 'sts'])

function hasOneToken({ credentials }: CASection): boolean {
  if (!credentials) return false
  return SHARED.has(credentials.plugin.name) && credentials.options['workloadToken'] === undefined
}
