/** The scenarios: each makes its worlds, runs them, and reports what happened. */
import { BACKDATE_MS } from './model-ca.ts'
import { summarise } from './rates.ts'
import { type Measured, World, type WorldSettings } from './world.ts'
import { worstOutageStart } from './worst-outage.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

/** One world of a scenario. */
export interface Row {
  readonly variant: string
  readonly measured: Measured
  /** The lifetime of its certificates in seconds, if the worlds of a scenario differ in nothing else. */
  readonly lifetimeS?: number
  /** Seconds from the disturbance until all was well again, if there was one. */
  readonly recoveredAfterS?: number
  /** How long some node served a certificate under a root that another did not know, seconds. */
  readonly unverifiableS?: number
  /** The effect of its outages on the identities. */
  readonly trouble?: Trouble
  /** Further figures, as sentences. */
  readonly notes: readonly string[]
}

/** The shares of identities in trouble, by the minute. */
export interface Trouble {
  readonly outages: WorldSettings['outages']
  /** Identities whose last call failed. */
  readonly failing: Float64Array
  /** Identities whose certificate has ended without a successor. */
  readonly without: Float64Array
}

/** `settings` come from the command line; a scenario sets the rest itself. */
export type Scenario = (
  settings: ScenarioSettings,
  progress: (variant: string, simulatedMs: number) => void,
) => Promise<readonly Row[]>

export interface ScenarioSettings extends Omit<WorldSettings, 'ttlMs' | 'skewMs' | 'outages' | 'roots' | 'settleMs'> {
  /** `undefined`: the scenario's own. */
  readonly ttlMs: number | undefined
  readonly skewMs: number
  readonly outageMs: number
  /** The length of `month` in days, and the number of simulated replicas. */
  readonly days: number
  readonly sample: number
}

/** The same world at another size: a node and its share of the CA stay the same. */
export function scaled(settings: ScenarioSettings, scale: number): ScenarioSettings {
  const times = (value: number) => Math.max(1, Math.round(value * scale))
  return { ...settings, nodes: times(settings.nodes), rate: times(settings.rate), queue: times(settings.queue) }
}

const CALM = { ttlMs: 24 * HOUR_MS, skewMs: 0, outages: [], roots: 'none' } as const

/** Every node starts, and every identity needs its first certificate. */
export const boot: Scenario = async (settings, progress) => {
  const rows: Row[] = []
  const { queue, retryAfterMs = 1_000, nodes, identities } = settings
  const variants = [
    { variant: 'a refusal says nothing', queue, retryAfterMs: undefined },
    { variant: `a refusal says: in ${seconds(retryAfterMs / 1_000)}`, queue, retryAfterMs },
    { variant: 'nothing is refused', queue: Number.POSITIVE_INFINITY, retryAfterMs },
  ]
  for (const { variant, ...more } of variants) {
    const ttlMs = settings.ttlMs ?? CALM.ttlMs
    const wanted = { ...CALM, ...settings, ...more, ttlMs, skewMs: 0 }
    const world = await World.create(wanted, ms => progress(variant, ms))
    bootAll(world)
    const measured = world.measure()
    const ideal = (nodes * identities) / measured.capacity
    rows.push({
      variant,
      measured,
      recoveredAfterS: measured.service.allServedAfterS,
      notes: [`${ratio(measured.service.allServedAfterS, ideal)} of the ${seconds(ideal)} that signing alone takes`],
    })
  }
  return rows
}

/** Renewals over several lifetimes after one second in which everything was fetched. */
export const steady: Scenario = async (settings, progress) => {
  const rows: Row[] = []
  const ttlMs = settings.ttlMs ?? HOUR_MS
  const size = `${settings.nodes} × ${settings.identities}`
  const everywhere = {
    variant: `${size}, the same identities on every node`,
    ...settings,
    names: 'shared' as const,
    ttlMs,
  }
  const variants = [
    ...(settings.names === 'own' ? [{ variant: `${size}, every identity on one node`, ...settings, ttlMs }] : []),
    everywhere,
    // A CA that is quick enough to sign ten thousand in one second.
    { variant: '1 × 10,000, lifetime 60 s', ...settings, nodes: 1, identities: 10_000, ttlMs: MINUTE_MS, rate: 10_000 },
  ]
  for (const { variant, ...more } of variants) {
    const world = await World.create({ ...CALM, ...more, skewMs: 0 }, ms => progress(variant, ms))
    world.runUntil(0.4 * more.ttlMs)
    world.startMeasuring()
    world.runUntil(4 * more.ttlMs)
    rows.push({
      variant,
      measured: world.measure(),
      lifetimeS: more.ttlMs / 1_000,
      notes: spreading(world, more.ttlMs),
    })
  }
  return rows
}

/** The peak second over the mean, during the first renewals and afterwards. */
function spreading({ ca, time: { start } }: World, ttlMs: number): string[] {
  const spans = [
    { name: 'first window', from: 0.4 * ttlMs, until: 0.6 * ttlMs },
    { name: 'afterwards', from: 0.8 * ttlMs, until: 4 * ttlMs },
  ]
  return spans.map(({ name, from, until }) => {
    const { peak, mean } = summarise(ca.signed.between(start + from, start + until))
    return `${name}: at most ${peak} renewals in a second, ${ratio(peak, mean)} of the mean (${mean.toFixed(1)}/s)`
  })
}

/** The former default of the settle time, ten seconds, before it followed how the CA announces roots. */
const OLD_SETTLE_MS = 10_000

const ROTATIONS = [
  { variant: 'the CA pushes its roots', roots: 'push', settleMs: undefined },
  { variant: 'its roots are polled', roots: 'poll', settleMs: undefined },
  { variant: 'its roots are polled, settle 10 s', roots: 'poll', settleMs: OLD_SETTLE_MS },
  { variant: 'roots come with certificates (Istio)', roots: 'none', settleMs: undefined },
  { variant: 'roots come with certificates, settle 10 s', roots: 'none', settleMs: OLD_SETTLE_MS },
] as const

/** Every node gets a new root once the first certificates are there. */
export const rotation: Scenario = async (settings, progress) => {
  const rows: Row[] = []
  const ttlMs = settings.ttlMs ?? CALM.ttlMs
  for (const { variant, ...more } of ROTATIONS) {
    // Nodes that start together would poll together.
    const bootWithinMs = Math.max(settings.bootWithinMs, 10 * MINUTE_MS)
    const world = await World.create({ ...CALM, ...settings, ...more, bootWithinMs, ttlMs, skewMs: 0 }, ms =>
      progress(variant, ms),
    )
    world.runUntil(Math.min(HOUR_MS, 0.2 * ttlMs))
    const followed = followRotation(world)
    world.startMeasuring()
    const rotatedAt = world.elapsedMs
    await world.rotateRoot()
    world.runUntil(rotatedAt + ttlMs, () => followed.leaves === world.fleet.identities)
    const measured = world.measure()
    const unverifiableS = Math.max(0, followed.lastNodeAt - followed.firstLeafAt) / 1_000
    world.ca.dropOldRoots()
    world.runUntil(world.elapsedMs + 5 * MINUTE_MS)
    rows.push({
      variant,
      measured,
      unverifiableS,
      recoveredAfterS: (followed.lastLeafAt - world.time.start - rotatedAt) / 1_000,
      notes: [
        `the last node knew the new root ${seconds((followed.lastNodeAt - world.time.start - rotatedAt) / 1_000)} after the rotation`,
        `some node served what another could not verify for ${seconds(unverifiableS)}`,
      ],
    })
  }
  return rows
}

/** Watches which nodes follow a rotation that begins now; times are milliseconds since the epoch. */
function followRotation({ fleet, time, settings }: World) {
  const rotatedAt = time.now()
  const hasFollowed = new Uint8Array(fleet.identities)
  const knows = new Uint8Array(settings.nodes)
  const followed = { leaves: 0, firstLeafAt: Number.POSITIVE_INFINITY, lastLeafAt: rotatedAt, lastNodeAt: rotatedAt }
  fleet.onRoots = node => {
    if (knows[node] === 1) return
    knows[node] = 1
    followed.lastNodeAt = time.now()
  }
  fleet.onServed = (identity, { notBefore }) => {
    if (notBefore + BACKDATE_MS < rotatedAt || hasFollowed[identity] === 1) return
    hasFollowed[identity] = 1
    followed.leaves++
    followed.firstLeafAt = Math.min(followed.firstLeafAt, time.now())
    followed.lastLeafAt = time.now()
  }
  return followed
}

/** The CA is down at the worst time of the first renewals. */
export const outage: Scenario = async (settings, progress) => {
  const rows: Row[] = []
  const { outageMs } = settings
  const lifetimes = settings.ttlMs === undefined ? [24 * HOUR_MS, 2 * HOUR_MS, HOUR_MS] : [settings.ttlMs]
  const variants = lifetimes.map(ttlMs => ({ ttlMs, manner: 'refuse' as const }))
  const [longest = CALM.ttlMs] = lifetimes
  for (const { ttlMs, manner } of [...variants, { ttlMs: longest, manner: 'silent' as const }]) {
    const variant = `lifetime ${hours(ttlMs)}${manner === 'silent' ? ', calls time out' : ''}`
    const { world, afterMs } = await throughOutage(
      { ...CALM, ...settings, ttlMs, skewMs: 0 },
      { outageMs, manner },
      ms => progress(variant, ms),
    )
    const recoveredAfterS = (world.fleet.allWellSince - world.time.start - afterMs - outageMs) / 1_000
    const { start } = world.time
    const after = summarise(world.ca.calls.between(start + afterMs + outageMs, world.time.now()))
    rows.push({
      variant,
      measured: world.measure(),
      recoveredAfterS,
      notes: [
        `away from ${hours(afterMs)} to ${hours(afterMs + outageMs)}; highest load after it ${after.peak} calls/s`,
      ],
    })
  }
  return rows
}

/** A world that boots, goes through its outage and recovers; measured from the outage on. */
export async function throughOutage(
  settings: Omit<WorldSettings, 'outages'>,
  { outageMs, manner }: { readonly outageMs: number; readonly manner: 'refuse' | 'silent' },
  progress: (simulatedMs: number) => void,
): Promise<{ readonly world: World; readonly afterMs: number }> {
  const afterMs = worstOutageStart(settings.ttlMs, outageMs)
  const world = await World.create({ ...settings, outages: [{ afterMs, forMs: outageMs, manner }] }, progress)
  world.runUntil(afterMs)
  world.startMeasuring()
  world.runUntil(afterMs + outageMs)
  world.runUntil(world.elapsedMs + HOUR_MS, () => world.fleet.failing === 0)
  return { world, afterMs }
}

/** Wrong clocks, from the boot through the first renewals. */
export const skew: Scenario = async (settings, progress) => {
  const rows: Row[] = []
  const ttlMs = settings.ttlMs ?? HOUR_MS
  for (const skewMs of [...new Set([4 * MINUTE_MS, settings.skewMs])]) {
    const variant = `clocks off by up to ${skewMs / MINUTE_MS} min, lifetime ${hours(ttlMs)}`
    const world = await World.create({ ...CALM, ...settings, ttlMs, skewMs }, ms => progress(variant, ms))
    world.runUntil(ttlMs)
    const late = summarise(world.ca.calls.between(world.time.now() - 10 * MINUTE_MS, world.time.now()))
    rows.push({
      variant,
      measured: world.measure(),
      notes: [
        `${world.fleet.failing} identities fail at the end; the last 10 minutes had ${late.mean.toFixed(0)} calls/s`,
      ],
    })
  }
  return rows
}

/** Runs until every identity has a first certificate, for an hour at most. */
export function bootAll(world: World): void {
  world.runUntil(HOUR_MS, () => world.fleet.service.waiting === 0, 1_000)
}

function ratio(value: number, of: number): string {
  return `${(value / of).toFixed(2)} times`
}

function seconds(value: number): string {
  return `${value.toFixed(1)} s`
}

export function hours(ms: number): string {
  return `${+(ms / HOUR_MS).toFixed(2)} h`
}
