/** The figures of every suite as a table with the machine on top, and as JSON. */
import { mkdir, writeFile } from 'node:fs/promises'
import { arch, availableParallelism, cpus, release, totalmem } from 'node:os'
import { cpuFlags } from './peers/proc.ts'

/** One measured figure. */
export interface Figure {
  /** The measured work, such as `ECDSA P-256 key + CSR`. */
  readonly work: string
  /** The way it was done, such as `native, batch of 1,000`. */
  readonly how: string
  /** The median, in `unit`. */
  readonly median: number
  /** The quarter-points around the median, which show the noise. */
  readonly p25: number
  readonly p75: number
  readonly unit: string
  readonly samples: number
}

/** Instructions that speed up keys, signatures and hashes. */
const FEATURES = ['adx', 'bmi2', 'avx2', 'avx512f', 'avx512ifma', 'sha_ni', 'vaes', 'sha2']

export interface Machine {
  /** The model, with the instructions of {@link FEATURES} that it has, by Linux's names. */
  readonly cpu: string
  readonly cores: number
  readonly memoryGiB: number
  readonly system: string
  readonly node: string
  readonly date: string
}

export function describeMachine(now: Date): Machine {
  return {
    cpu: describeCpu(cpus()[0]?.model ?? 'unknown', cpuFlags(FEATURES)),
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${release()} ${arch()}`,
    node: process.version,
    date: now.toISOString().slice(0, 10),
  }
}

function describeCpu(model: string, features: readonly string[]): string {
  return features.length > 0 ? `${model} (${features.join(' ')})` : model
}

/** The figure of many samples. */
export function figure(work: string, how: string, unit: string, samples: readonly number[]): Figure {
  const sorted = samples.toSorted((a, b) => a - b)
  const at = (fraction: number) => sorted[Math.floor(fraction * (sorted.length - 1))] ?? Number.NaN
  return { work, how, unit, samples: sorted.length, median: at(0.5), p25: at(0.25), p75: at(0.75) }
}

export function toTable(machine: Machine, figures: readonly Figure[]): string {
  const rows = figures.map(({ work, how, median, p25, p75, unit }) => [
    work,
    how,
    `${formatNumber(median)} ${unit}`,
    `${formatNumber(p25)} – ${formatNumber(p75)}`,
  ])
  return [tellMachine(machine), '', markdownTable(['work', 'how', 'median', 'middle half'], rows), ''].join('\n')
}

export function tellMachine({ cpu, cores, memoryGiB, system, node, date }: Machine): string {
  return `${date}, ${cpu}, ${cores} cores, ${memoryGiB} GiB, ${system}, Node ${node}`
}

export function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n')
}

/** The folder for `results/` and `plots/`: the tracked one if the user asked for it, else one that git ignores. */
export function outputFolder(tracked: boolean): URL {
  return new URL(tracked ? '../' : '../../.cache/benchmarks/', import.meta.url)
}

/** `name` is relative to {@link outputFolder}, such as `results/soak.json`. */
export async function writeOutput(folder: URL, name: string, text: string): Promise<void> {
  const file = new URL(name, folder)
  await mkdir(new URL('.', file), { recursive: true })
  await writeFile(file, text)
}

export function prettyJson(content: unknown): string {
  return `${JSON.stringify(content, undefined, 2)}\n`
}

export function formatNumber(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2
  return value.toLocaleString('en-US', { maximumFractionDigits: digits })
}
