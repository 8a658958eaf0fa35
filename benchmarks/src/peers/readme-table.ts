/** Writes the table of a run between the markers of the README. */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { toMarkdown, withTable } from './comparison-table.ts'
import type { Run } from './run.ts'

const README = fileURLToPath(new URL('../../README.md', import.meta.url))

export async function writeTable(
  { machine, rounds, comparisons, skipped }: Run,
  say: (line: string) => void,
): Promise<void> {
  const updated = withTable(await readFile(README, 'utf8'), toMarkdown(machine, rounds, comparisons, skipped))
  if (updated !== undefined) await writeFile(README, updated)
  say(updated === undefined ? `${README} has no markers for the table` : `wrote the table to ${README}`)
}
