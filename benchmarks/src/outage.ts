/** `npm run outage`: cuts the CA off for longer than certificates live, and measures the cost to the node and the CA. `--help` lists the options. */

import { readOptions } from './option-values.ts'
import { cut } from './outage/cut.ts'
import { HELP, type OutageOptions, parseOptions } from './outage/options.ts'
import { cleanUpOnExit } from './peers/workdir.ts'
import { markdown } from './simulate/report.ts'

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args, parseOptions, 'outage')
  if (options === 'help') {
    process.stdout.write(HELP)
    return 0
  }
  if (options === 'wrong') return 2
  cleanUpOnExit()
  const rows: string[][] = []
  for (let round = 1; round <= options.rounds; round++)
    for (const folder of sides(options, round)) rows.push(await runOnce(options, folder, round))
  const header = [
    'round',
    'program',
    'without a certificate, mean',
    'all back after',
    'CPU until then, agent and CA',
    'calls in the outage',
    'highest rate after it',
  ]
  process.stdout.write(markdown(header, rows))
  return 0
}

/** Each round begins with a different side. */
function sides({ folders }: OutageOptions, round: number): readonly string[] {
  return round % 2 === 1 ? folders : [...folders].reverse()
}

async function runOnce(options: OutageOptions, folder: string, round: number): Promise<string[]> {
  process.stderr.write(`outage: round ${round}, ${folder}\n`)
  const { missingSeconds, backAfterSeconds, agentCpuSeconds, caCpuSeconds, ...seen } = await cut(folder, options)
  const cpu = `${agentCpuSeconds.toFixed(2)} + ${caCpuSeconds.toFixed(2)} s`
  return [
    `${round}`,
    folder,
    `${missingSeconds.toFixed(1)} s`,
    `${backAfterSeconds.toFixed(1)} s`,
    cpu,
    `${seen.calls}`,
    `${seen.highestRate}/s`,
  ]
}

process.exitCode = await main(process.argv.slice(2))
