/** `npm run plots --workspace benchmarks`: redraws the plots and the README's table from `results/` without measuring. */
import { readFile } from 'node:fs/promises'
import { savePlots } from './peers/growth.ts'
import { writeTable } from './peers/readme-table.ts'
import type { Run } from './peers/run.ts'
import { outputFolder, writeOutput } from './report.ts'
import type { SoakOptions } from './soak/options.ts'
import { soakPlots } from './soak/plots.ts'
import type { Sample } from './soak/verdict.ts'

const FOLDER = outputFolder(true)

const say = (line: string) => void process.stderr.write(`plots: ${line}\n`)

const run: Run = await stored('peers')
await savePlots(FOLDER, run.growths)
await writeTable(run, say)
for (const name of ['soak', 'soak-attack']) {
  const { options, samples }: { options: SoakOptions; samples: readonly Sample[] } = await stored(name)
  for (const [file, svg] of soakPlots(name, options, samples)) await writeOutput(FOLDER, `plots/${file}`, svg)
}
say('the results of `npm run simulate` have no figure for each second: its plots need a run with --save')

async function stored<T>(name: string): Promise<T> {
  return JSON.parse(await readFile(new URL(`results/${name}.json`, FOLDER), 'utf8'))
}
