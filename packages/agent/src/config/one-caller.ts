/** Whether the pods of a node would all ask a CA as one caller, whose identity it then puts into every certificate. */
import type { CASection } from './ca-section.ts'
import type { Settings } from './schema.ts'

/** One line for each CA that names a certificate by its caller, and gets the same caller for every pod. */
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

/** Sources that give one token for all workloads; what the source of a module gives is not known. */
const SHARED: ReadonlySet<string> = new Set(['token-file', 'static', 'gce-metadata', 'sts'])

function hasOneToken({ credentials }: CASection): boolean {
  if (!credentials) return false
  return SHARED.has(credentials.plugin.name) && credentials.options['workloadToken'] === undefined
}
