/** The command line of `npm run simulate`. */
import { parseArgs } from 'node:util'
import { atLeast, count, duration, oneOf, refuse } from '../option-values.ts'
import type { ScenarioSettings } from './scenarios.ts'

export const SCENARIOS = ['boot', 'steady', 'rotation', 'outage', 'skew', 'capacity', 'month'] as const
export type ScenarioName = (typeof SCENARIOS)[number]

export interface SimulateOptions {
  readonly runs: readonly { readonly name: ScenarioName; readonly settings: ScenarioSettings }[]
  /** The factor for nodes, rate and queue; `undefined`: the scenario's own. */
  readonly scale: number | undefined
  /** The limit of `capacity` for serving everything after a start of all nodes. */
  readonly bootGoalMs: number
  /** Whether the tracked results and plots are replaced. */
  readonly save: boolean
}

export const HELP = `Usage: npm run simulate -- [options]

Has Livery's own \`decide\` decide for many nodes on a virtual clock against a modelled CA, and prints what the CA and the
workloads see. Results go to results/simulate.json in .cache/benchmarks, plots to plots/simulate-<scenario>.svg there.

  --scenario <name>     boot, steady, rotation, outage, skew, capacity, month, or all (default: all)
  --scale <x>           nodes, rate and queue times x (default: 1; outage 0.25, capacity 0.1, to end soon)
  --nodes <n>           nodes (default: 1000; month 10000)
  --identities <n>      identities of each node (default: 100; month 1000)
  --names own|shared    every identity on one node only, or the same ones on every node (default: own)
  --ttl <duration>      lifetime of a certificate (default: by scenario)
  --replicas <n>        replicas of the CA (default: 2; month 100)
  --rate <n>            signatures a second of a replica (default: 500)
  --queue <n>           requests that may wait at a replica; more are refused (default: 1000)
  --retry-after <d>     how long a refusal asks to wait (default: it does not say; boot also tries 1s)
  --round-trip <d>      the time from a node to the CA and back (default: 2ms)
  --call-timeout <d>    the time after which a client gives up a call (default: 10s)
  --boot-within <d>     the nodes start within this time (default: 1s)
  --boot-goal <d>       capacity: all have a certificate this long after that (default: 10m)
  --outage <duration>   how long the CA is away in outage, capacity and month (default: 1h)
  --skew <duration>     how far clocks are off at most in skew (default: 10m)
  --days <n>            how long month is (default: 30)
  --sample <n>          replicas that month simulates, with all of their nodes; they stand for the others (default: 2)
  --seed <n>            the seed of the random numbers (default: 1)
  --save                write to benchmarks/ instead, whose results are tracked
  --help                print this

A duration is a number and ms, s, m or h, such as 90s. The same options give the same numbers.
`

/** Reads the options; `undefined` if the user wants the help. Throws a `TypeError` that names option, value and remedy. */
export function parseOptions(args: readonly string[]): SimulateOptions | undefined {
  const { values } = parseArgs({ args: [...args], options: OPTIONS, strict: true })
  if (values.help) return undefined
  return {
    runs: readScenarios(values.scenario).map(name => ({ name, settings: settingsOf(name, values) })),
    scale: values.scale === undefined ? undefined : scaleOf(values.scale),
    bootGoalMs: duration('boot-goal', values['boot-goal']),
    save: values.save,
  }
}

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values']

function settingsOf(scenario: ScenarioName, values: Values): ScenarioSettings {
  const size = scenario === 'month' ? LARGE : USUAL
  return {
    nodes: count('nodes', values.nodes ?? size.nodes, 100_000),
    identities: count('identities', values.identities ?? size.identities, 100_000),
    names: oneOf('names', values.names, ['own', 'shared']),
    ttlMs: values.ttl === undefined ? undefined : atLeast('ttl', values.ttl, 10_000),
    replicas: count('replicas', values.replicas ?? size.replicas, 1_000),
    rate: count('rate', values.rate, 1_000_000),
    queue: count('queue', values.queue, 1_000_000_000),
    retryAfterMs: values['retry-after'] === undefined ? undefined : duration('retry-after', values['retry-after']),
    roundTripMs: duration('round-trip', values['round-trip']),
    callTimeoutMs: atLeast('call-timeout', values['call-timeout'], 1),
    bootWithinMs: duration('boot-within', values['boot-within']),
    outageMs: atLeast('outage', values.outage, 1_000),
    skewMs: duration('skew', values.skew),
    days: count('days', values.days, 366),
    sample: count('sample', values.sample, 1_000),
    seed: count('seed', values.seed, 1_000_000),
  }
}

const USUAL = { nodes: '1000', identities: '100', replicas: '2' }
const LARGE = { nodes: '10000', identities: '1000', replicas: '100' }

const OPTIONS = {
  scenario: { type: 'string', default: 'all' },
  scale: { type: 'string' },
  nodes: { type: 'string' },
  identities: { type: 'string' },
  names: { type: 'string', default: 'own' },
  ttl: { type: 'string' },
  replicas: { type: 'string' },
  rate: { type: 'string', default: '500' },
  queue: { type: 'string', default: '1000' },
  'retry-after': { type: 'string' },
  'round-trip': { type: 'string', default: '2ms' },
  'call-timeout': { type: 'string', default: '10s' },
  'boot-within': { type: 'string', default: '1s' },
  'boot-goal': { type: 'string', default: '10m' },
  outage: { type: 'string', default: '1h' },
  skew: { type: 'string', default: '10m' },
  days: { type: 'string', default: '30' },
  sample: { type: 'string', default: '2' },
  seed: { type: 'string', default: '1' },
  save: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

function readScenarios(text: string): readonly ScenarioName[] {
  return text === 'all' ? SCENARIOS : [oneOf('scenario', text, SCENARIOS)]
}

function scaleOf(text: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0
  if (value >= 0.001 && value <= 100) return value
  throw refuse('scale', text, 'is not a number from 0.001 to 100', 'Write 0.1 for a tenth')
}
