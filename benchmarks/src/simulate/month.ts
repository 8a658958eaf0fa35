/**
 * A month of a fleet that is too large for one world. A node stays on one replica of the CA, and replicas share nothing: each
 * replica with its nodes is simulated exactly, on a separate thread. Some replicas stand for all.
 */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { summarise } from './rates.ts'
import { hours, type Row, type Scenario, type ScenarioSettings } from './scenarios.ts'
import { seededRandom } from './seeded-random.ts'
import { World, type WorldSettings } from './world.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
/** Nodes of two replicas never share a seed: there are at most 100,000. */
const SEEDS_OF_A_REPLICA = 200_000

/** The month of one replica. */
export interface ReplicaMonth {
  readonly variant: string
  readonly days: number
  readonly world: WorldSettings
}

export const month: Scenario = async (settings, progress) => {
  const all = replicaMonths(settings)
  const months = all.slice(0, settings.sample)
  const rows = new Array<Row>(months.length)
  let next = 0
  const runNext = async () => {
    for (let index = next++; index < months.length; index = next++) {
      const each = months[index]
      if (each) rows[index] = await inThread(each, ms => progress(each.variant, ms))
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, runNext))
  const notes = sampling(settings, months, rows)
  return rows.map((row, index) => (index === rows.length - 1 ? { ...row, notes: [...row.notes, ...notes] } : row))
}

/** Runs in this thread what {@link month} runs on many. */
export async function monthOfReplica(
  { world: settings, days, variant }: ReplicaMonth,
  progress: (simulatedMs: number) => void,
): Promise<Row> {
  const world = await World.create(settings, progress)
  const { fleet, ca, time } = world
  const minutes = Math.ceil((days * DAY_MS) / MINUTE_MS)
  const trouble = {
    outages: settings.outages,
    failing: new Float64Array(minutes),
    without: new Float64Array(minutes),
  }
  for (let minute = 0; minute < minutes; minute++) {
    world.runUntil((minute + 1) * MINUTE_MS)
    trouble.failing[minute] = fleet.failing / fleet.identities
    trouble.without[minute] = fleet.service.without / fleet.identities
  }
  const notes = settings.outages.map(({ afterMs, forMs, manner }) => {
    const end = time.start + afterMs + forMs
    const { peak } = summarise(ca.calls.between(end, end + DAY_MS / 2))
    const without = worstOf(trouble.without, afterMs, forMs + DAY_MS / 2)
    return `${outageName(forMs, manner)}: at most ${(100 * without).toFixed(1)} % of the identities without a certificate, ${peak} calls in the highest second after it`
  })
  return { variant, measured: world.measure(), trouble, notes }
}

export function outageName(forMs: number, manner: string): string {
  return `${hours(forMs)} away, calls ${manner === 'refuse' ? 'are refused' : 'time out'}`
}

/** Each replica of the CA, with the nodes assigned to it at random. */
export function replicaMonths(settings: ScenarioSettings): readonly ReplicaMonth[] {
  const { days, outageMs, nodes, replicas, seed, ttlMs = DAY_MS } = settings
  const random = seededRandom(seed)
  const shares = new Array<number>(replicas).fill(0)
  for (let node = 0; node < nodes; node++) {
    const replica = Math.floor(random() * replicas)
    shares[replica] = (shares[replica] ?? 0) + 1
  }
  const outages = [
    { afterMs: 0.25 * days * DAY_MS, forMs: outageMs, manner: 'refuse' as const },
    { afterMs: 0.5 * days * DAY_MS, forMs: outageMs, manner: 'silent' as const },
    // The outage outlasts two fifths of the lifetime: some certificates lapse.
    { afterMs: 0.75 * days * DAY_MS, forMs: ttlMs / 2, manner: 'refuse' as const },
  ]
  const common = { ...settings, ttlMs, replicas: 1, skewMs: 0, roots: 'none', outages } as const
  return shares.map((share, replica) => ({
    variant: `replica ${replica + 1} of ${replicas}, with ${share} nodes`,
    days,
    world: { ...common, nodes: share, seed: seed + replica * SEEDS_OF_A_REPLICA },
  }))
}

/** The load of the whole CA, extrapolated per node from the simulated replicas, and its possible error. */
export function sampling(
  { nodes, identities, replicas }: ScenarioSettings,
  months: readonly ReplicaMonth[],
  rows: readonly Row[],
) {
  const simulated = months.reduce((sum, { world }) => sum + world.nodes, 0)
  const ofANode = rows.map(({ measured }, index) => measured.signed.mean / (months[index]?.world.nodes ?? 1))
  const signed = rows.reduce((sum, { measured }) => sum + measured.signed.total, 0)
  const mean = ofANode.reduce((sum, each) => sum + each, 0) / rows.length
  const variance = ofANode.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (rows.length - 1)
  const error = Math.sqrt((variance / rows.length) * (1 - rows.length / replicas))
  return [
    `exact: ${rows.length} of ${replicas} replicas with all of their ${simulated} nodes, ${simulated * identities} identities and ${signed} certificates`,
    `sampled: the others are taken to be like them; the CA of all ${nodes} nodes signs ${(mean * nodes).toFixed(1)} a second on average${rows.length > 1 ? `, with a standard error of ${((100 * error) / mean).toFixed(2)} %` : ''}`,
  ]
}

function worstOf(shares: Float64Array, fromMs: number, forMs: number): number {
  const within = shares.subarray(Math.floor(fromMs / MINUTE_MS), Math.ceil((fromMs + forMs) / MINUTE_MS))
  return within.reduce((a, b) => Math.max(a, b), 0)
}

async function inThread(workerData: ReplicaMonth, progress: (simulatedMs: number) => void): Promise<Row> {
  const { promise, resolve, reject } = Promise.withResolvers<Row>()
  const worker = new Worker(new URL('./month-thread.ts', import.meta.url), { workerData })
  worker.on('message', (message: number | Row) => {
    if (typeof message === 'number') progress(message)
    else resolve(message)
  })
  worker.on('error', reject)
  return await promise
}
