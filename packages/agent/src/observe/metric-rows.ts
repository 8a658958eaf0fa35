/** Metrics that are read at each scrape, as tables: one row per metric. */
import { Counter, Gauge, Histogram, type Registry } from './prometheus.ts'

/** A value, then the values of the row's labels in their order. */
export type Sample = readonly [value: number, ...labels: readonly string[]]

interface RowName {
  /** A metric whose name ends in `_total` is a counter, one with buckets a histogram, every other one a gauge. */
  readonly name: string
  readonly help: string
}

/** A metric without labels. `read` returns `undefined` while there is no value. */
interface PlainRow extends RowName {
  readonly labels?: never
  readonly buckets?: never
  readonly read: () => number | undefined
}

/** A metric with labels. `read` returns every sample; a sample that it leaves out is no longer exported. */
interface LabelledRow extends RowName {
  readonly labels: readonly string[]
  readonly buckets?: never
  readonly read: () => Iterable<Sample>
}

/** The distribution of values at the time of the scrape. `buckets` are their upper bounds, in rising order. */
interface DistributionRow extends RowName {
  readonly labels?: never
  readonly buckets: readonly number[]
  readonly read: () => Iterable<number>
}

export type MetricRow = PlainRow | LabelledRow | DistributionRow

export function registerRows(registry: Registry, rows: readonly MetricRow[]): void {
  for (const row of rows) {
    if (row.buckets) {
      registerDistribution(registry, row)
      continue
    }
    const config = { name: row.name, help: row.help, labelNames: row.labels ?? [], registers: [registry] }
    if (row.name.endsWith('_total')) {
      const counter: Counter = new Counter({
        ...config,
        collect: () => replaceSamples(counter, row, (labels, value) => counter.inc(labels, value)),
      })
    } else {
      const gauge: Gauge = new Gauge({
        ...config,
        collect: () => replaceSamples(gauge, row, (labels, value) => gauge.set(labels, value)),
      })
    }
  }
}

function registerDistribution(registry: Registry, { name, help, buckets, read }: DistributionRow): void {
  const histogram: Histogram = new Histogram({
    name,
    help,
    buckets: [...buckets],
    registers: [registry],
    collect() {
      histogram.reset()
      histogram.zero({})
      for (const value of read()) histogram.observe(value)
    },
  })
}

function replaceSamples(
  metric: Counter | Gauge,
  row: PlainRow | LabelledRow,
  write: (labels: Record<string, string>, value: number) => void,
): void {
  metric.reset()
  // `reset` leaves a metric without labels at 0.
  if (!row.labels) metric.remove()
  for (const [value, ...labels] of samplesOf(row)) write(withNames(row.labels ?? [], labels), value)
}

function samplesOf(row: PlainRow | LabelledRow): Iterable<Sample> {
  if (row.labels) return row.read()
  const value = row.read()
  return value === undefined ? [] : [[value]]
}

function withNames(names: readonly string[], values: readonly string[]): Record<string, string> {
  return Object.fromEntries(values.map((value, index) => [names[index], value]))
}
