/** Writes the table of a run between the markers of the READMEs: all comparisons for the benchmarks, the main ones at the top. */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Comparison, isMet } from './comparison.ts'
import { toMarkdown, withTable } from './comparison-table.ts'
import type { Run } from './run.ts'

const HEADLINES = ['ecdsa-istio', 'rsa-simd', 'serving', 'push', 'cold-spire', 'memory']
const READMES = [
  { name: '../../README.md', isShown: isCompared, tellsSkipped: true },
  { name: '../../../README.md', isShown: isForTheTop, tellsSkipped: false },
] as const

export async function writeTable(
  { machine, rounds, comparisons, skipped }: Run,
  say: (line: string) => void,
): Promise<void> {
  for (const { name, isShown, tellsSkipped } of READMES) {
    const table = toMarkdown(machine, rounds, comparisons.filter(isShown), tellsSkipped ? skipped : [])
    const path = fileURLToPath(new URL(name, import.meta.url))
    const updated = withTable(await readFile(path, 'utf8'), table)
    if (updated !== undefined) await writeFile(path, updated)
    say(updated === undefined ? `${path} has no markers for the table` : `wrote the table to ${path}`)
  }
}

/** Figures of Livery alone, without a target, are in the results and the plots. */
function isCompared({ peer, target }: Comparison): boolean {
  return peer !== undefined || target !== undefined
}

/** The top has main rows with a target, and each whose target is missed. */
function isForTheTop(comparison: Comparison): boolean {
  const met = isMet(comparison)
  return met === false || (met === true && HEADLINES.includes(comparison.row))
}
