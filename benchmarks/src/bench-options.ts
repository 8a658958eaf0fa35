/** The command line of `npm run bench`. */
import { parseArgs } from 'node:util'

export const HELP = `Usage: npm run bench -- [options]

Measures keys, the SecretManager and SDS, and prints a table. LIVERY_SLOW=1 adds ECDSA P-384, RSA-3072 and RSA-4096, and takes
longer. Without the native addon the rows of WebCrypto remain.

  --save    write the results to benchmarks/results/latest.json, which is tracked; otherwise to .cache/benchmarks
  --help    print this
`

interface BenchOptions {
  readonly save: boolean
}

/** Reads the options; `undefined` if the user wants the help. Throws a `TypeError` that names the option. */
export function parseOptions(args: readonly string[]): BenchOptions | undefined {
  const { values } = parseArgs({ args: [...args], options: OPTIONS, strict: true })
  return values.help ? undefined : { save: values.save }
}

const OPTIONS = {
  save: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const
