/** Warns if a node's pods all ask the CA as one caller, and the CA puts the caller's identity into every certificate. */
import type { CASection } from './ca-section.ts'
import type { Settings } from './schema.ts'

/** One line for each CA that names certificates by their caller, and sees one caller for all pods. */
export function oneCallerWarnings({ kubernetes }: Pick<Settings, 'kubernetes'>, ca: CASection): string[] {
  return kubernetes ? warningsOf(ca, 'ca') : []
}

function warningsOf(section: CASection, key: string): string[] {
  const { plugin, options, members } = section
  if (members) return members.flatMap((member, index) => warningsOf(member, `${key}.cas[${index}]`))
  if (plugin.capabilities.san !== 'caller' || options['impersonate'] === true || !hasOneToken(section)) return []
  const impersonate = 'impersonate' in plugin.options ? `Write ${key}.impersonate: true, or ` : 'Write '
  return [
    `${key}: ${plugin.name} puts the identity of the caller into a certificate, and one token is shown for all pods: what it signs is no pod's. ${impersonate}${key}.credentials: { source: workload-token }.`,
  ]
}

/** Sources that give one token for all workloads; a module's source is unknown. */
const SHARED: ReadonlySet<string> = new Set(['token-file', 'static', 'gce-metadata', 'sts'])

function hasOneToken({ credentials }: CASection): boolean {
  if (!credentials) return false
  return SHARED.has(credentials.plugin.name) && credentials.options['workloadToken'] === undefined
}
