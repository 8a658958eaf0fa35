/** `npm run bench:peers`: Livery against the programs in the folder LIVERY_PEERS. `--help` lists the options. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { describeMachine, type Machine, outputFolder, prettyJson, writeOutput } from '../report.ts'
import type { Bench, Row } from './bench.ts'
import { coldStartRows } from './cold-start-rows.ts'
import type { Comparison, Skipped } from './comparison.ts'
import { tellSkipped, toMarkdown } from './comparison-table.ts'
import { type Growth, measureGrowth, savePlots } from './growth.ts'
import { keyRows } from './key-rows.ts'
import { memoryRows } from './memory-rows.ts'
import { onDemandRows } from './on-demand-rows.ts'
import { findPrograms, PROGRAMS, type Programs, whatIsAbsent } from './programs.ts'
import { pushRows } from './push-rows.ts'
import { writeTable } from './readme-table.ts'
import { mergeProblem, mergeRuns, type Run } from './run.ts'
import { servingRows } from './serving-rows.ts'
import { cleanUpOnExit } from './workdir.ts'
import { openWorkingCopy } from './working-copy.ts'

const ROWS: readonly Row[] = [...keyRows, ...servingRows, ...pushRows, ...coldStartRows, ...onDemandRows, ...memoryRows]
const GROWTH: Row<Growth> = {
  name: 'growth',
  needs: ['neutralca', 'sdsload'],
  against: ['sdspeer'],
  measure: measureGrowth,
}
const NAMES = [...ROWS, GROWTH].map(({ name }) => name)
const ROUNDS = 5
const HELP = `Usage: LIVERY_PEERS=DIR npm run bench:peers -- [options]

Measures Livery against the programs in the folder DIR, and prints a table. A row whose program is missing is skipped.

  --only <row,...>  these rows: ${NAMES.join(', ')}
  --rounds <n>      rounds of each row (default: ${ROUNDS})
  --against <dir>   another working copy of Livery, set up: its cold starts are measured in turn with ours
  --save            write results/peers.json, the plots, and the tables of the READMEs. With --only, the rows replace
                    their old values in a run of the same day
  --help            print this
`

const started = performance.now()
const say = (message: string) => {
  const minutes = ((performance.now() - started) / 60_000).toFixed(1)
  process.stderr.write(`[${minutes} min] ${message}\n`)
}

try {
  await main()
} catch (error) {
  process.stderr.write(`bench:peers: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}

async function main(): Promise<void> {
  const options = readOptions()
  if (options === 'help') {
    process.stdout.write(HELP)
    return
  }
  if (process.platform !== 'linux')
    throw new Error(
      `it reads CPU time and memory from /proc, so it works on Linux only, and this is ${process.platform}`,
    )
  const programs = await findPrograms(process.env['LIVERY_PEERS'] || undefined)
  cleanUpOnExit()
  const machine = describeMachine(new Date())
  const last = options.save && options.isPart ? await readLast(machine, options.rounds) : undefined
  const against = options.against === undefined ? undefined : await openWorkingCopy(options.against)
  const bench: Bench = { programs, rounds: options.rounds, ...(against && { against }), say }
  const skipped: Skipped[] = []
  const skip = (entry: Skipped): void => {
    skipped.push(entry)
    say(tellSkipped(entry))
    if (entry.what === 'failure') process.exitCode = 1
  }
  const comparisons = await measureRows(bench, options.rows, skip)
  const growths = options.rows.includes(GROWTH.name) ? await measureUnlessSkipped(bench, GROWTH, skip) : []
  const measured = { machine, rounds: options.rounds, comparisons, skipped, growths }
  const run = last ? mergeRuns(last, measured, options.rows, NAMES) : measured
  process.stdout.write(toMarkdown(machine, run.rounds, run.comparisons, run.skipped))
  if (!options.save) return
  const versions = { livery: await liveryVersion(), peers: await digests(programs) }
  const folder = outputFolder(true)
  await writeOutput(folder, 'results/peers.json', prettyJson({ ...run, versions }))
  await savePlots(folder, machine, run.growths)
  if (run.comparisons.length > 0) await writeTable(run, say)
}

async function readLast(machine: Machine, rounds: number): Promise<Run> {
  const last: Run = JSON.parse(await readFile(new URL('results/peers.json', outputFolder(true)), 'utf8'))
  const problem = mergeProblem(last, machine, rounds)
  if (problem === undefined) return last
  throw new Error(`cannot save a part: ${problem}. Measure all rows, or leave --save out`)
}

interface Options {
  readonly rows: readonly string[]
  readonly isPart: boolean
  readonly rounds: number
  readonly against: string | undefined
  readonly save: boolean
}

function readOptions(): Options | 'help' {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      rounds: { type: 'string' },
      against: { type: 'string' },
      save: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const rows = values.only?.flatMap(list => list.split(',')) ?? NAMES
  for (const name of rows)
    if (!NAMES.includes(name)) throw new Error(`--only ${name} is not one of the rows ${NAMES.join(', ')}`)
  const rounds = Number(values.rounds ?? ROUNDS)
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`--rounds ${values.rounds} is not a number of rounds; write 1 or more`)
  return { rows, isPart: values.only !== undefined, rounds, against: values.against, save: values.save }
}

async function measureRows(
  bench: Bench,
  wanted: readonly string[],
  skip: (entry: Skipped) => void,
): Promise<readonly Comparison[]> {
  const comparisons: Comparison[] = []
  for (const row of ROWS.filter(({ name }) => wanted.includes(name)))
    comparisons.push(...(await measureUnlessSkipped(bench, row, skip)))
  return comparisons
}

/** Reports a row that fails, and measures the others: a whole run takes half an hour. */
async function measureUnlessSkipped<T>(
  bench: Bench,
  { name, needs, against, obstacle, measure }: Row<T>,
  skip: (entry: Skipped) => void,
): Promise<readonly T[]> {
  const reason = whatIsAbsent(bench.programs, needs) ?? (await obstacle?.())
  if (reason !== undefined) {
    skip({ row: name, what: 'row', reason })
    return []
  }
  const lacking = against && whatIsAbsent(bench.programs, against)
  if (lacking !== undefined) skip({ row: name, what: 'peer', reason: lacking })
  say(name)
  try {
    return await measure(bench)
  } catch (error) {
    skip({ row: name, what: 'failure', reason: error instanceof Error ? error.message : String(error) })
    return []
  }
}

async function liveryVersion(): Promise<string> {
  const { version } = JSON.parse(
    await readFile(new URL('../../../packages/agent/package.json', import.meta.url), 'utf8'),
  )
  return version
}

/** The SHA-256 of each program, in hexadecimal, identifies it: the peers report no version. */
async function digests(programs: Programs): Promise<Record<string, string>> {
  const entries = PROGRAMS.map(async name => {
    const found = programs[name]
    if ('absent' in found) return []
    return [
      [
        name,
        createHash('sha256')
          .update(await readFile(found.path))
          .digest('hex'),
      ],
    ]
  })
  return Object.fromEntries((await Promise.all(entries)).flat())
}
