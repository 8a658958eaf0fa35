/** `npm run plots --workspace benchmarks`: redraws the plots and the README's table from `results/` without measuring. */
import { readdir, readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { savePlots } from './peers/growth.ts'
import { writeTable } from './peers/readme-table.ts'
import type { Run } from './peers/run.ts'
import { type Machine, outputFolder, writeOutput } from './report.ts'
import type { SoakOptions } from './soak/options.ts'
import { soakPlots } from './soak/plots.ts'
import type { Sample } from './soak/verdict.ts'

const FOLDER = outputFolder(true)
const RESULTS = new URL('results/', FOLDER)

interface Soaked {
  readonly machine: Machine
  readonly options: SoakOptions
  readonly samples: readonly Sample[]
}

const say = (line: string) => void process.stderr.write(`plots: ${line}\n`)

const run: Run = await stored('peers.json')
await savePlots(FOLDER, run.machine, run.growths)
await writeTable(run, say)
for (const file of (await readdir(RESULTS)).filter(name => name.startsWith('soak'))) {
  const { machine, options, samples }: Soaked = await stored(file)
  for (const [plot, svg] of soakPlots(basename(file, '.json'), machine, options, samples))
    await writeOutput(FOLDER, `plots/${plot}`, svg)
}
say('the results of `npm run simulate` have no figure for each second: its plots need a run with --save')

async function stored<T>(file: string): Promise<T> {
  return JSON.parse(await readFile(new URL(file, RESULTS), 'utf8'))
}
