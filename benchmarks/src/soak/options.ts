/** The command line of `npm run soak`. */
import { parseArgs } from 'node:util'
import { atLeast, count, duration, oneOf } from '../option-values.ts'

export interface SoakOptions {
  readonly identities: number
  readonly ttlMs: number
  /** Counted from the moment when all have a certificate. */
  readonly forMs: number
  readonly connections: number
  readonly ca: 'livery' | 'peer'
  /** How long the CA is stopped after the first two lifetimes; 0: never. */
  readonly caAwayMs: number
  /** Whether another uid attacks the sockets meanwhile. */
  readonly attack: boolean
  /** Whether the tracked results and plots are replaced. */
  readonly save: boolean
}

export const HELP = `Usage: npm run soak -- [options]

Runs the agent with a CA in another process and short-lived certificates, and looks at every secret that it serves. Ends
with 1 if one was bad, late or missing, if renewals came in bursts, or if memory grew. Results go to results/soak.json in
.cache/benchmarks, plots to plots/soak-*.svg there; with --attack to soak-attack.json and soak-attack-*.svg.

  --identities <n>     identities, each with its own stream (default: 10000, with --attack 1000)
  --ttl <duration>     lifetime of a certificate (default: 60s)
  --minutes <n>        how long, once all have a certificate (default: 30)
  --connections <n>    connections that the streams are spread over (default: 100)
  --ca livery|peer     livery: \`livery ca\`; peer: neutralca in the folder LIVERY_PEERS (default: livery)
  --ca-away <d>        stop the CA for this time after two lifetimes, to see that the soak finds gaps (default: 0s)
  --attack             another uid attacks the SDS socket and the admin endpoint meanwhile, and the time of answers counts (as root)
  --save               write to benchmarks/ instead, whose results are tracked
  --help               print this

A duration is a number and ms, s, m or h, such as 90s.
`

/** Reads the options; `undefined` if the user wants the help. Throws a `TypeError` that names option, value and remedy. */
export function parseOptions(args: readonly string[]): SoakOptions | undefined {
  const { values } = parseArgs({ args: [...args], options: OPTIONS, strict: true })
  if (values.help) return undefined
  return {
    identities: count('identities', values.identities ?? (values.attack ? '1000' : '10000'), 20_000),
    ttlMs: atLeast('ttl', values.ttl, 5_000),
    forMs: count('minutes', values.minutes, 100_000) * 60_000,
    connections: count('connections', values.connections, 10_000),
    ca: oneOf('ca', values.ca, ['livery', 'peer']),
    caAwayMs: duration('ca-away', values['ca-away']),
    attack: values.attack,
    save: values.save,
  }
}

const OPTIONS = {
  identities: { type: 'string' },
  ttl: { type: 'string', default: '60s' },
  minutes: { type: 'string', default: '30' },
  connections: { type: 'string', default: '100' },
  ca: { type: 'string', default: 'livery' },
  'ca-away': { type: 'string', default: '0s' },
  attack: { type: 'boolean', default: false },
  save: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const
