/** Metrics of the certificates that are written to directories. */
import type { MetricRow } from './metric-rows.ts'

export function outputMetrics(outputs: { readonly counts: { readonly failures: number } }): readonly MetricRow[] {
  return [
    {
      name: 'livery_output_failures_total',
      help: 'Failures to write a set of files, or to have a program read it. Both are tried again: see the log.',
      read: () => outputs.counts.failures,
    },
  ]
}
