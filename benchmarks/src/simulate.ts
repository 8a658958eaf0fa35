/** `npm run simulate`: the load of many nodes on a CA, and its effect on them. `--help` lists the options. */
import { readFile } from 'node:fs/promises'
import { readOptions } from './option-values.ts'
import { describeMachine, outputFolder, prettyJson, writeOutput } from './report.ts'
import { findCapacity } from './simulate/capacity.ts'
import { month } from './simulate/month.ts'
import { HELP, parseOptions, type ScenarioName } from './simulate/options.ts'
import { plotLoad, plotOutages, time, toJson, toTable, whole } from './simulate/report.ts'
import {
  boot,
  outage,
  rotation,
  type Scenario,
  type ScenarioSettings,
  scaled,
  skew,
  steady,
} from './simulate/scenarios.ts'

const TITLES: Readonly<Record<Exclude<ScenarioName, 'capacity'>, readonly [title: string, run: Scenario]>> = {
  boot: ['All nodes start at once', boot],
  steady: ['Renewals after everything was fetched in one second', steady],
  rotation: ['A new root', rotation],
  outage: ['The CA is away at the worst time', outage],
  skew: ['Wrong clocks', skew],
  month: ['A month with three outages', month],
}
const RESULTS = 'results/simulate.json'
/** Each scenario takes about a minute at its scale. */
const OWN_SCALE: Readonly<Partial<Record<ScenarioName, number>>> = { outage: 0.25, capacity: 0.1 }
/** The time between two lines of progress, milliseconds of real time. */
const PROGRESS_EVERY_MS = 2_000

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args, parseOptions, 'simulate')
  if (options === 'help') {
    process.stdout.write(HELP)
    return 0
  }
  if (options === 'wrong') return 2
  const folder = outputFolder(options.save)
  for (const { name, settings: wanted } of options.runs) {
    const settings = scaled(wanted, options.scale ?? OWN_SCALE[name] ?? 1)
    const rows =
      name === 'capacity' ? await runCapacity(settings, options.bootGoalMs) : await runScenario(name, settings, folder)
    await keep(folder, name, { settings, rows })
  }
  return 0
}

async function runScenario(
  name: Exclude<ScenarioName, 'capacity'>,
  settings: ScenarioSettings,
  folder: URL,
): Promise<unknown> {
  const [title, run] = TITLES[name]
  const rows = await run(settings, showProgress(name))
  const { nodes, identities, replicas, rate } = settings
  const fleet = `${whole(nodes)} nodes × ${whole(identities)} identities, ${whole(replicas)} × ${whole(rate)} signatures/s`
  process.stdout.write(`## ${title} (${fleet})\n\n${toTable(rows)}\n`)
  const simulated = { title, fleet, machine: describeMachine(new Date()) }
  await writeOutput(folder, `plots/simulate-${name}.svg`, plotLoad(simulated, rows))
  const outages = plotOutages(simulated, rows)
  if (outages !== undefined) await writeOutput(folder, `plots/simulate-${name}-outages.svg`, outages)
  return toJson(rows)
}

async function runCapacity(settings: ScenarioSettings, bootGoalMs: number): Promise<unknown> {
  const { table, rows } = await findCapacity(settings, bootGoalMs, showProgress('capacity'))
  process.stdout.write(`## What one replica carries (${settings.rate} signatures/s)\n\n${table}\n`)
  return rows
}

function showProgress(scenario: string): (variant: string, simulatedMs: number) => void {
  let shownAt = performance.now()
  return (variant, simulatedMs) => {
    if (performance.now() - shownAt < PROGRESS_EVERY_MS) return
    shownAt = performance.now()
    const { rss } = process.memoryUsage()
    process.stderr.write(
      `${scenario}, ${variant}: ${time(simulatedMs / 1_000)} simulated, ${Math.round(rss / 1e6)} MB\n`,
    )
  }
}

/** Keeps the results of the other scenarios. */
async function keep(folder: URL, name: ScenarioName, result: unknown): Promise<void> {
  const before: unknown = JSON.parse(await readFile(new URL(RESULTS, folder), 'utf8').catch(() => '{}'))
  const all = { ...(before instanceof Object ? before : {}), [name]: result }
  await writeOutput(folder, RESULTS, prettyJson(all))
}

process.exitCode = await main(process.argv.slice(2))
