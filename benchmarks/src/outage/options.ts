/** The command line of `npm run outage`. */
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { atLeast, count, oneOf } from '../option-values.ts'

export interface OutageOptions {
  readonly identities: number
  readonly ttlMs: number
  readonly cutMs: number
  /** `refuse`: connections are refused. `silent`: they are accepted, and nothing answers. */
  readonly manner: 'refuse' | 'silent'
  readonly rounds: number
  /** Working copies whose agents are measured. */
  readonly folders: readonly string[]
}

export const HELP = `Usage: npm run outage -- [options]

Runs the agent with certificates from \`livery ca\` in another process, cuts the connection for longer than certificates live, and
measures how long identities are without one, when all are back, and how often the CA was called meanwhile.

  --identities <n>       identities of the node (default: 1000)
  --ttl <duration>       lifetime of a certificate (default: 60s)
  --cut <duration>       how long the CA cannot be reached (default: 90s)
  --manner refuse|silent connections are refused, or accepted and never answered (default: refuse)
  --against <folder>     another working copy, set up, whose agent is measured in turn with this one
  --rounds <n>           how often (default: 1)
  --help                 print this

A duration is a number and ms, s, m or h, such as 90s.
`

const HERE = fileURLToPath(new URL('../../../', import.meta.url))

/** Reads the options; `undefined` if the user wants the help. Throws a `TypeError` that names option, value and remedy. */
export function parseOptions(args: readonly string[]): OutageOptions | undefined {
  const { values } = parseArgs({ args: [...args], options: OPTIONS, strict: true })
  if (values.help) return undefined
  return {
    identities: count('identities', values.identities, 10_000),
    ttlMs: atLeast('ttl', values.ttl, 5_000),
    cutMs: atLeast('cut', values.cut, 1_000),
    manner: oneOf('manner', values.manner, ['refuse', 'silent']),
    rounds: count('rounds', values.rounds, 100),
    folders: values.against === undefined ? [HERE] : [resolve(values.against), HERE],
  }
}

const OPTIONS = {
  identities: { type: 'string', default: '1000' },
  ttl: { type: 'string', default: '60s' },
  cut: { type: 'string', default: '90s' },
  manner: { type: 'string', default: 'refuse' },
  against: { type: 'string' },
  rounds: { type: 'string', default: '1' },
  help: { type: 'boolean', default: false },
} as const
