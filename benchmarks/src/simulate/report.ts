/** Shows a simulation: a table with notes, the same as JSON, and a plot of the load with the capacity in it. */
import { linePlot, type PlotSeries } from '../plot.ts'
import { type Machine, tellMachine } from '../report.ts'
import { outageName } from './month.ts'
import { peaks } from './rates.ts'
import type { Row } from './scenarios.ts'

const HEADER = [
  'variant',
  'calls/s: peak',
  'mean',
  'p99',
  'refused',
  'wait at the CA: p99',
  'max',
  'all served after',
  'least lifetime left',
  'identities that lapsed',
  'identity-seconds lapsed',
  'recovered after',
]

export function toTable(rows: readonly Row[]): string {
  const cells = rows.map(({ variant, measured, recoveredAfterS }) => {
    const { calls, refused, latencyS, service } = measured
    return [
      variant,
      whole(calls.peak),
      short(calls.mean),
      whole(calls.p99),
      `${whole(refused)} (${short((100 * refused) / Math.max(calls.total, 1))} %)`,
      time(latencyS.p99),
      time(latencyS.max),
      service.neverServed > 0 ? `never: ${whole(service.neverServed)} without` : time(service.allServedAfterS),
      service.worstRemainingS < 0 ? 'none' : time(service.worstRemainingS),
      whole(service.lapsed),
      whole(service.lapsedIdentitySeconds),
      recoveredAfterS === undefined ? '' : time(recoveredAfterS),
    ]
  })
  const notes = rows.flatMap(({ variant, notes }) => notes.map(note => `- ${variant}: ${note}`))
  return [markdown(HEADER, cells), ...notes, ''].join('\n')
}

export function markdown(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line), ''].join('\n')
}

/** Rounds the results for their file: the last digits of a sum mean nothing. */
export function toJson(rows: readonly Row[]): unknown {
  return rows.map(({ variant, measured: { callsBySecond: _, ...measured }, trouble: __, ...more }) => ({
    variant,
    ...roundAll(measured),
    ...more,
  }))
}

function roundAll(value: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([name, one]: [string, unknown]) => {
      if (typeof one === 'number') return [name, Math.round(one * 1_000) / 1_000]
      return [name, one instanceof Object ? roundAll(one) : one]
    }),
  )
}

const MOST_POINTS = 300
const HOUR_S = 3_600

/** Where a plot comes from; `fleet` is what was simulated. */
export interface Simulated {
  readonly title: string
  readonly fleet: string
  readonly machine: Machine
}

/** Plots calls by the second; each point is the peak of its interval. */
export function plotLoad({ title, fleet, machine }: Simulated, rows: readonly Row[]): string {
  const [unit, secondsPer] = timeUnit(rows)
  const series = rows.map(row => loadOf(row, secondsPer(row)))
  const end = Math.max(...series.flatMap(({ points }) => points.map(([at]) => at)))
  return linePlot({
    title,
    conditions: `Simulated: ${fleet}. Each point is the highest second of its stretch; 0.1 stands for none. ${tellMachine(machine)}`,
    x: { name: `${unit} since the start of the measurement` },
    y: { name: 'calls to the CA a second', log: true },
    series: [...series, ...capacitiesOf(rows, end)],
  })
}

const BEFORE_MINUTES = 10
const AFTER_MINUTES = 120
const MOST_MINUTES = 900

/** Plots each outage of the first row: identities that fail or lack a certificate, from shortly before it to its aftermath. */
export function plotOutages({ title, fleet, machine }: Simulated, rows: readonly Row[]): string | undefined {
  const [{ variant, trouble } = { variant: '', trouble: undefined }] = rows
  if (!trouble) return undefined
  const series = trouble.outages.flatMap(({ afterMs, forMs, manner }) => {
    const from = Math.floor(afterMs / 60_000)
    const shown = Math.min(forMs / 60_000 + AFTER_MINUTES, MOST_MINUTES)
    const pointsOf = (shares: Float64Array) =>
      Array.from({ length: BEFORE_MINUTES + shown }, (_, index) => {
        const minute = index - BEFORE_MINUTES
        return [minute / 60, 100 * (shares[from + minute] ?? 0)] as const
      })
    const name = outageName(forMs, manner)
    return [
      { name: `${name}: the last call failed`, points: pointsOf(trouble.failing) },
      { name: `${name}: no certificate`, points: pointsOf(trouble.without), line: 'dashed' as const },
    ]
  })
  return linePlot({
    title: `${title}: identities in trouble`,
    conditions: `Simulated: ${fleet}; ${variant}, by the minute. ${tellMachine(machine)}`,
    x: { name: 'hours since the CA went away' },
    y: { name: '% of the identities' },
    series,
  })
}

/** Worlds with different lifetimes of certificates are compared by lifetimes. */
function timeUnit(rows: readonly Row[]): readonly [unit: string, secondsPer: (row: Row) => number] {
  if (rows.every(({ lifetimeS }) => lifetimeS !== undefined)) return ['lifetimes', ({ lifetimeS = 1 }) => lifetimeS]
  const longest = Math.max(...rows.map(({ measured }) => measured.callsBySecond.length))
  return longest > 2 * HOUR_S ? ['hours', () => HOUR_S] : ['seconds', () => 1]
}

function loadOf({ variant, measured }: Row, secondsPerUnit: number): PlotSeries {
  const points = peaks(measured.callsBySecond, MOST_POINTS)
  return {
    name: variant,
    points: points.map(({ second, peak }) => [second / secondsPerUnit, Math.max(peak, 0.1)] as const),
  }
}

/** A level for each CA: its signatures a second. */
function capacitiesOf(rows: readonly Row[], end: number): readonly PlotSeries[] {
  return [...Map.groupBy(rows, ({ measured }) => measured.capacity)].map(([capacity, served], _, all) => ({
    name: `the CA${all.length > 1 ? ` of "${served[0]?.variant}"` : ''} signs ${whole(capacity)} a second`,
    points: [
      [0, capacity],
      [end, capacity],
    ],
    line: 'dotted',
  }))
}

export function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US')
}

export function short(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 })
}

/** Formats seconds for people. */
export function time(seconds: number): string {
  if (seconds < 1) return `${short(seconds * 1_000)} ms`
  if (seconds < 600) return `${short(seconds)} s`
  if (seconds < HOUR_S) return `${short(seconds / 60)} min`
  return `${short(seconds / HOUR_S)} h`
}
