/** The cost of a push: a renewed certificate or a new root on many open streams, one connection each. */
import { type Bench, ifPresent, type Row } from './bench.ts'
import type { Comparison } from './comparison.ts'
import { inRounds, median, type Sample, type Side } from './rounds.ts'
import { clientsOf, cpuEach, type LoadPhase, reported, sdsload } from './sdsload.ts'
import { type SdsProcess, startCA, startIstioAgent, startPromptedLivery } from './servers.ts'
import { Workdir } from './workdir.ts'

export const CPU = 'CPU µs per push'
export const LAST = 'ms to the last'
/** One push takes a millisecond, and the kernel counts CPU in steps of ten. */
const pushesTo = (streams: number) => (streams < 10 ? 200 : 8)
const intervalMs = (streams: number) => (streams < 10 ? 50 : Math.max(500, streams / 2))
/** The first pushes run code that is not compiled yet. */
const WARMUP_PUSHES = 2
/** A round has ten thousand messages: V8 compiles during the first twenty thousand, for a seventh of their CPU. */
const WARMUP_ROUNDS = 3
const STREAMS = 1_000

export const pushRows: readonly Row[] = [
  { name: 'renewals', needs: ['neutralca', 'sdsload'], measure: measureRenewals },
  { name: 'push', needs: ['neutralca', 'sdsload'], against: ['sdspeer'], measure: measurePush },
  { name: 'rotation', needs: ['neutralca', 'sdsload'], measure: measureRotation },
]

/** The signals: USR2 pushes the certificate again or renews it, USR1 pushes the roots with one more. */
type Prompt = 'USR1' | 'USR2'

/** Pushes one secret to every stream several times: the median time to the last stream, and the CPU of each push. */
export async function push(
  bench: Bench,
  workdir: Workdir,
  target: SdsProcess,
  streams: number,
  prompt: Prompt,
): Promise<Sample> {
  const asked = prompt === 'USR1' ? { names: '', root: 'ROOTCA' } : { root: '' }
  const pushes = pushesTo(streams) + WARMUP_PUSHES
  const watch = await watchPushes(bench, workdir, target, { ...asked, clients: streams }, prompt, pushes)
  // A push replaces an earlier one that is not out yet: such a wave does not measure one push.
  const whole = (watch.waves ?? []).filter(({ deliveries }) => deliveries === streams)
  if (whole.length < pushes / 2)
    throw new Error(
      `${whole.length} of ${pushes} pushes came to all ${streams} streams (${watch.count} deliveries): either the machine is too busy, or the server did not push`,
    )
  const last = whole.map(({ from_trigger_ms: time }) => reported(time?.max, 'the time of a push'))
  return {
    [LAST]: median(last.slice(WARMUP_PUSHES)),
    [CPU]: cpuEach(watch),
  }
}

async function watchPushes(
  bench: Bench,
  workdir: Workdir,
  target: SdsProcess,
  options: { readonly clients: number; readonly names?: string; readonly root: string },
  prompt: Prompt,
  pushes: number,
): Promise<LoadPhase> {
  // The interval lets each push end before the next: five thousand take a third of a second on an idle machine.
  const everyMs = intervalMs(options.clients)
  const { watch } = await sdsload(bench, workdir, {
    ...clientsOf(target, options.clients),
    ...options,
    watch: `${everyMs * pushes + 2_000}ms`,
    trigger: `sig:${prompt}:${target.server.pid}`,
    'trigger-every': `${everyMs}ms`,
    'trigger-count': pushes,
    'min-wave': 1,
  })
  if (!watch) throw new Error('sdsload did not watch')
  return watch
}

/** Each stream has a separate identity, so that only pushes of renewed identities come. */
async function measureRenewals(bench: Bench): Promise<Comparison[]> {
  const measure = async (): Promise<Sample> => {
    await using workdir = new Workdir()
    const ca = await startCA(bench, workdir)
    const livery = await startPromptedLivery(workdir, ca, { identities: STREAMS, renew: 100 })
    const { count } = await watchPushes(bench, workdir, livery, { clients: STREAMS, root: '' }, 'USR2', 1)
    return { pushes: count }
  }
  const measured = await inRounds(bench.rounds, [{ name: 'Livery', measure }], bench.say)
  return [
    {
      row: 'renewals',
      work: '100 of 1,000 identities renew, 1,000 streams: pushes sent',
      unit: 'pushes',
      ours: measured('Livery', 'pushes'),
      target: { of: 'ours', is: 'exactly', value: 100 },
    },
  ]
}

async function measurePush(bench: Bench): Promise<Comparison[]> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  const servers = new Map([['Livery', await startPromptedLivery(workdir, ca, { identities: 1, renew: 1 })]])
  for (const name of ifPresent(bench, 'sdspeer', () => 'Istio agent'))
    servers.set(name, await startIstioAgent(bench, workdir, ca))
  const sides = [...servers].map(
    ([name, server]): Side => ({ name, measure: () => push(bench, workdir, server, STREAMS, 'USR2') }),
  )
  for (let round = 0; round < WARMUP_ROUNDS; round++) for (const side of sides) await side.measure()
  const measured = await inRounds(bench.rounds, sides, bench.say)
  const comparison = (what: string, unit: string, measure: string, atMost: number): Comparison => ({
    row: 'push',
    work: `push of a renewed secret to 1,000 streams: ${what}`,
    unit,
    ours: measured('Livery', measure),
    ...(servers.has('Istio agent') && { peer: { name: 'Istio agent', samples: measured('Istio agent', measure) } }),
    target: { of: 'ratio', is: 'at most', value: atMost },
  })
  return [comparison('server CPU each', 'µs', CPU, 0.5), comparison('time to the last', 'ms', LAST, 1)]
}

/** Measures time per stream, so that 1 is linear. Each run has a fresh server: every push adds a root to the bundle. */
async function measureRotation(bench: Bench): Promise<Comparison[]> {
  const MANY = 5_000
  const measure = async (streams: number): Promise<Sample> => {
    await using workdir = new Workdir()
    const ca = await startCA(bench, workdir)
    const livery = await startPromptedLivery(workdir, ca, { identities: 1, renew: 1 })
    const sample = await push(bench, workdir, livery, streams, 'USR1')
    return { ...sample, each: ((sample[LAST] ?? Number.NaN) * 1_000) / streams }
  }
  const sides = [MANY, STREAMS].map(streams => ({ name: `${streams} streams`, measure: () => measure(streams) }))
  const measured = await inRounds(bench.rounds, sides, bench.say)
  return [
    {
      row: 'rotation',
      work: 'push of a new root to 5,000 streams: time for each stream',
      unit: 'µs',
      ours: measured(`${MANY} streams`, 'each'),
      peer: { name: 'itself at 1,000', samples: measured(`${STREAMS} streams`, 'each') },
      target: { of: 'ratio', is: 'at most', value: 1.3 },
    },
    {
      row: 'rotation',
      work: 'the same: time to the last',
      unit: 'ms',
      ours: measured(`${MANY} streams`, LAST),
      peer: { name: 'itself at 1,000', samples: measured(`${STREAMS} streams`, LAST) },
    },
  ]
}
