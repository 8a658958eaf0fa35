/** Metrics of the secrets in files that streams name. */
import type { Clock, FileSecretEntry } from '@livery/core'
import type { MetricRow, Sample } from './metric-rows.ts'

/** Above this number of names one series per name costs the scraper too much. */
const MAX_SERIES = 1_000

export function fileMetrics(files: { entries(): readonly FileSecretEntry[] }, clock: Clock): readonly MetricRow[] {
  const perName = (read: (entry: FileSecretEntry) => number | undefined) => () => {
    const entries = files.entries()
    if (entries.length > MAX_SERIES) return []
    return entries.flatMap(entry => {
      const value = read(entry)
      return value === undefined ? [] : [[value, entry.name] satisfies Sample]
    })
  }
  return [
    {
      name: 'livery_file_secrets',
      help: 'Names of files that are streamed, by state: usable, or unusable: see the log.',
      labels: ['state'],
      read: () => {
        const entries = files.entries()
        const unusable = entries.filter(({ fault }) => fault !== undefined).length
        return [
          [entries.length - unusable, 'usable'],
          [unusable, 'unusable'],
        ]
      },
    },
    {
      name: 'livery_file_secret_last_change_timestamp_seconds',
      help: 'When the files of a name were last read with another content. Only with up to 1,000 names.',
      labels: ['resource_name'],
      read: perName(({ changedAt }) => changedAt && changedAt / 1000),
    },
    {
      name: 'livery_file_secret_remaining_seconds',
      help: 'Time until the certificate in the files of a name ends. Only with up to 1,000 names.',
      labels: ['resource_name'],
      read: perName(({ notAfter }) => notAfter && (notAfter - clock.now()) / 1000),
    },
  ]
}
