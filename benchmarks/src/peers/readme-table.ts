/** Writes the table of a run between the markers of the READMEs: the whole table for the benchmarks, a few rows at the top. */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { toMarkdown, withSameRows, withTable } from './comparison-table.ts'
import type { Run } from './run.ts'

const READMES = [
  ['../../README.md', withTable],
  ['../../../README.md', withSameRows],
] as const

export async function writeTable(
  { machine, rounds, comparisons, skipped }: Run,
  say: (line: string) => void,
): Promise<void> {
  const table = toMarkdown(machine, rounds, comparisons, skipped)
  for (const [name, update] of READMES) {
    const path = fileURLToPath(new URL(name, import.meta.url))
    const updated = update(await readFile(path, 'utf8'), table)
    if (updated !== undefined) await writeFile(path, updated)
    say(updated === undefined ? `${path} has no markers for the table` : `wrote the table to ${path}`)
  }
}
