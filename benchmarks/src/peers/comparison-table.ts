/** Comparisons as Markdown: on stdout, and between two markers of a README. */
import { formatNumber, type Machine, markdownTable, tellMachine } from '../report.ts'
import { type Comparison, isMet, ratioOf, type Skipped, type Target } from './comparison.ts'
import { median } from './rounds.ts'

const BEGIN = '<!-- bench:peers -->'
const END = '<!-- /bench:peers -->'
const SIGNS = { 'at least': '≥', 'at most': '≤', exactly: '=' } as const

/** The table with the machine above it and what was skipped below. */
export function toMarkdown(
  machine: Machine,
  rounds: number,
  comparisons: readonly Comparison[],
  skipped: readonly Skipped[],
): string {
  const medians =
    rounds === 1 ? 'one round' : `medians of ${rounds} rounds; the ratio is the median of the ratios in each round`
  const header = ['work', 'ours', 'peer', 'ratio', 'target', 'met']
  const table = comparisons.length > 0 ? [markdownTable(header, comparisons.map(toCells))] : []
  return `${[`${tellMachine(machine)}; ${medians}`, ...table, ...skipped.map(tellSkipped)].join('\n\n')}\n`
}

export function tellSkipped({ row, what, reason }: Skipped): string {
  if (what === 'failure') return `Failed: ${row}: ${reason}`
  return `Skipped ${row}${what === 'row' ? '' : ' (peer)'}: ${reason}.`
}

/** Puts `table` between the markers of a README; `undefined` when it has none. */
export function withTable(readme: string, table: string): string | undefined {
  const begin = readme.indexOf(BEGIN)
  const end = readme.indexOf(END)
  if (begin < 0 || end < begin) return undefined
  return `${readme.slice(0, begin + BEGIN.length)}\n${table.trim()}\n${readme.slice(end)}`
}

function toCells(comparison: Comparison): string[] {
  const { work, unit, ours, peer, target } = comparison
  const ratio = ratioOf(comparison)
  const met = isMet(comparison)
  return [
    work,
    tellSamples(ours, unit),
    peer ? `${peer.name}: ${tellSamples(peer.samples, unit)}` : '–',
    ratio === undefined ? '–' : `${formatNumber(ratio)}×`,
    target ? tellTarget(target, unit) : '–',
    met === undefined ? '–' : met ? 'yes' : 'no',
  ]
}

/** The median, and the lowest and highest sample if they differ from it. */
function tellSamples(samples: readonly number[], unit: string): string {
  const [middle, lowest, highest] = [median(samples), Math.min(...samples), Math.max(...samples)].map(formatNumber)
  return lowest === highest ? `${middle} ${unit}` : `${middle} ${unit} (${lowest}–${highest})`
}

function tellTarget({ of, is, value }: Target, unit: string): string {
  return of === 'ratio' ? `${SIGNS[is]} ${formatNumber(value)}×` : `${SIGNS[is]} ${formatNumber(value)} ${unit}`
}
