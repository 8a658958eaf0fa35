/** `npm run bench`: every suite, as a table on stdout and as JSON in a file. `--help` lists the options. */
import { HELP, parseOptions } from './bench-options.ts'
import { measureKeys } from './keys.ts'
import { readOptions } from './option-values.ts'
import { describeMachine, type Figure, outputFolder, prettyJson, toTable, writeOutput } from './report.ts'
import { measureSds } from './sds.ts'
import { measureSecretManager } from './secret-manager.ts'

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args, parseOptions, 'bench')
  if (options === 'help') {
    process.stdout.write(HELP)
    return 0
  }
  if (options === 'wrong') return 2
  const machine = describeMachine(new Date())
  const figures = await measure(process.env['LIVERY_SLOW'] !== undefined)
  await writeOutput(outputFolder(options.save), 'results/latest.json', prettyJson({ machine, figures }))
  process.stdout.write(toTable(machine, figures))
  return 0
}

async function measure(slow: boolean): Promise<readonly Figure[]> {
  const figures: Figure[] = []
  process.stderr.write('keys …\n')
  const types = slow
    ? (['ecdsa-p256', 'ecdsa-p384', 'rsa-2048', 'rsa-3072', 'rsa-4096'] as const)
    : (['ecdsa-p256', 'rsa-2048'] as const)
  figures.push(...(await measureKeys(types, slow ? 5_000 : 1_000)))
  process.stderr.write('SecretManager …\n')
  figures.push(...(await measureSecretManager([1, 100, 1_000], slow ? 10 : 3)))
  process.stderr.write('SDS …\n')
  figures.push(...(await measureSds([1, 100, 1_000], slow ? 50 : 10)))
  return figures
}

process.exitCode = await main(process.argv.slice(2))
