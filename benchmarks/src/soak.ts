/** `npm run soak`: many short-lived identities over a long time, and a client that checks every secret. `--help` lists the options. */
import { readOptions } from './option-values.ts'
import { cleanUpOnExit } from './peers/workdir.ts'
import { describeMachine, outputFolder, prettyJson, writeOutput } from './report.ts'
import { HELP, parseOptions, type SoakOptions } from './soak/options.ts'
import { soakPlots } from './soak/plots.ts'
import { soak } from './soak/run.ts'
import { type Check, judge, type Observed, passes } from './soak/verdict.ts'

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args, parseOptions, 'soak')
  if (options === 'help') {
    process.stdout.write(HELP)
    return 0
  }
  if (options === 'wrong') return 2
  if (options.attack && process.getuid?.() !== 0) {
    process.stderr.write('soak: --attack needs root: the attacker runs as another uid than the agent. Use sudo.\n')
    return 2
  }
  cleanUpOnExit()
  const observed = await soak(options, line => process.stderr.write(`soak: ${line}\n`))
  const checks = judge(observed)
  await keep(options, observed, checks)
  for (const { name, holds, found } of checks) {
    const verdict = holds === undefined ? 'not judged' : holds ? 'ok' : 'FAILED'
    process.stdout.write(`${verdict}: ${name} (${found})\n`)
  }
  return passes(checks) ? 0 : 1
}

async function keep(options: SoakOptions, { samples, ...observed }: Observed, checks: readonly Check[]): Promise<void> {
  const { renewals: _, ...rest } = observed
  const { save, ...settings } = options
  const machine = describeMachine(new Date())
  const results = {
    machine,
    options: settings,
    checks,
    ...rest,
    samples: samples.map(rounded),
  }
  const name = options.attack ? 'soak-attack' : 'soak'
  const folder = outputFolder(save)
  await writeOutput(folder, `results/${name}.json`, prettyJson(results))
  for (const [file, svg] of soakPlots(name, machine, options, samples)) await writeOutput(folder, `plots/${file}`, svg)
}

function rounded(sample: Observed['samples'][number]): unknown {
  const round = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 1_000) / 1_000 : value)
  return JSON.parse(JSON.stringify(sample, round))
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  // A failed start gives its reason in the message; any other error is a bug of this program.
  if (!(error instanceof Error) || error instanceof TypeError) throw error
  process.stderr.write(`soak: ${error.message}\n`)
  process.exitCode = 1
}
