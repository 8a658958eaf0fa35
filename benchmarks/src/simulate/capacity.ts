/** The load that one replica carries: worlds grow until boot, outage or refusals exceed their limits. */
import { markdown, short, time, whole } from './report.ts'
import { bootAll, type ScenarioSettings, throughOutage } from './scenarios.ts'
import { World, type WorldSettings } from './world.ts'
import { leastSafeTtl } from './worst-outage.ts'

const HOUR_MS = 3_600_000
const LIFETIMES_MS = [HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS]
/** Identities per signature a second: the seconds that signing them all takes. */
const LOADS = [10, 40, 80, 120, 160, 240, 320, 400, 480, 560, 600, 720]
const MOST_REFUSED = 0.01

/** One size at one lifetime. */
export interface Trial {
  readonly ttlMs: number
  readonly identities: number
  readonly bootS: number
  /** The shares of calls refused because a queue was full: in the boot, and from the outage to the recovery. */
  readonly refusedAtBoot: number
  readonly refusedAfterOutage: number
  readonly lapsedIdentitySeconds: number
  readonly recoveredAfterS: number
}

/** The most identities for which each demand holds, as it does for all smaller numbers. */
export interface Capacity {
  readonly bootInTime: number
  /** Counted from the outage on: a CA may refuse what its queue does not hold when all nodes start at once. */
  readonly fewRefused: number
  /** `undefined`: the lifetime is too short for that. */
  readonly nothingLost: number | undefined
  /** The capacity for all demands that can be met. */
  readonly all: number
}

interface Row {
  readonly ttlMs: number
  readonly capacity: Capacity
  readonly trials: readonly Trial[]
}

export async function findCapacity(
  settings: ScenarioSettings,
  bootGoalMs: number,
  progress: (variant: string, simulatedMs: number) => void,
): Promise<{ readonly table: string; readonly rows: readonly Row[] }> {
  const lifetimes = settings.ttlMs === undefined ? LIFETIMES_MS : [settings.ttlMs]
  const rows: Row[] = []
  for (const ttlMs of lifetimes) {
    const trials: Trial[] = []
    for (const load of LOADS) {
      const nodes = Math.max(1, Math.round((load * settings.rate) / settings.identities))
      const variant = `lifetime ${time(ttlMs / 1_000)}, ${whole(nodes)} nodes`
      trials.push(await tryOut({ ...settings, nodes, ttlMs }, ms => progress(variant, ms)))
      if ((trials.at(-1)?.bootS ?? 0) * 1_000 > bootGoalMs) break
    }
    rows.push({
      ttlMs,
      capacity: judge(trials, { bootGoalMs, canSurvive: ttlMs > leastSafeTtl(settings.outageMs) }),
      trials,
    })
  }
  return { table: toTable(rows, settings, bootGoalMs), rows }
}

async function tryOut(
  settings: ScenarioSettings & { readonly ttlMs: number },
  progress: (simulatedMs: number) => void,
): Promise<Trial> {
  const { ttlMs, outageMs } = settings
  const wanted: Omit<WorldSettings, 'outages'> = { ...settings, replicas: 1, skewMs: 0, roots: 'none' }
  const booted = await World.create({ ...wanted, outages: [] }, progress)
  bootAll(booted)
  const boot = booted.measure()
  const { world, afterMs } = await throughOutage(wanted, { outageMs, manner: 'refuse' }, progress)
  const after = world.measure()
  return {
    ttlMs,
    identities: world.fleet.identities,
    bootS: boot.service.neverServed > 0 ? Number.POSITIVE_INFINITY : boot.service.allServedAfterS,
    refusedAtBoot: boot.refused / boot.calls.total,
    refusedAfterOutage: after.refused / (after.refused + after.signed.total),
    lapsedIdentitySeconds: after.service.lapsedIdentitySeconds,
    recoveredAfterS: (world.fleet.allWellSince - world.time.start - afterMs - outageMs) / 1_000,
  }
}

/** `trials` grow; a demand that fails once counts as failed for everything larger. */
export function judge(
  trials: readonly Trial[],
  { bootGoalMs, canSurvive }: { readonly bootGoalMs: number; readonly canSurvive: boolean },
): Capacity {
  const most = (holds: (trial: Trial) => boolean) => {
    const first = trials.findIndex(trial => !holds(trial))
    const good = first === -1 ? trials : trials.slice(0, first)
    return good.at(-1)?.identities ?? 0
  }
  const bootInTime = most(({ bootS }) => bootS * 1_000 <= bootGoalMs)
  const fewRefused = most(({ refusedAfterOutage }) => refusedAfterOutage < MOST_REFUSED)
  const nothingLost = canSurvive ? most(({ lapsedIdentitySeconds }) => lapsedIdentitySeconds === 0) : undefined
  return { bootInTime, fewRefused, nothingLost, all: Math.min(bootInTime, fewRefused, nothingLost ?? bootInTime) }
}

function toTable(rows: readonly Row[], { outageMs, identities, rate }: ScenarioSettings, bootGoalMs: number): string {
  const outage = time(outageMs / 1_000)
  const header = [
    'lifetime',
    `all served within ${time(bootGoalMs / 1_000)} of a start of all`,
    `an outage of ${outage} loses nothing`,
    'under 1 % refused after it',
    'identities a replica carries',
    'for each signature/s',
    'its mean load then',
    'refused at the start of all then',
  ]
  const cells = rows.map(({ ttlMs, capacity: { bootInTime, nothingLost, fewRefused, all }, trials }) => {
    const refused = trials.find(({ identities }) => identities === all)?.refusedAtBoot ?? 0
    return [
      time(ttlMs / 1_000),
      whole(bootInTime),
      nothingLost === undefined ? `takes a lifetime over ${time(leastSafeTtl(outageMs) / 1_000)}` : whole(nothingLost),
      whole(fewRefused),
      whole(all),
      whole(all / rate),
      `${short((100 * all * 2_000) / ttlMs / rate)} %`,
      `${short(100 * refused)} % of the calls`,
    ]
  })
  return `${markdown(header, cells)}\n${identities} identities on each node. Of the sizes tried, the largest that holds.\n`
}
