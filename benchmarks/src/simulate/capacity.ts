/** What one replica carries: worlds of growing size, until boot, outage or refusals say no. */
import { markdown, short, time, whole } from './report.ts'
import { bootAll, type ScenarioSettings, throughOutage } from './scenarios.ts'
import { World, type WorldSettings } from './world.ts'
import { leastSafeTtl } from './worst-outage.ts'

const HOUR_MS = 3_600_000
const LIFETIMES_MS = [HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS]
/** Identities for each signature a second: how many seconds signing them all takes. */
const LOADS = [5, 10, 20, 40, 80, 120, 160, 240, 320, 400, 480, 560, 600, 720]
const MOST_REFUSED = 0.01

/** One size at one lifetime. */
export interface Trial {
  readonly ttlMs: number
  readonly identities: number
  readonly bootS: number
  /** Of the calls, refused because a queue was full: in the boot, and from the outage to the recovery. */
  readonly refusedAtBoot: number
  readonly refusedAfterOutage: number
  readonly lapsedIdentitySeconds: number
  readonly recoveredAfterS: number
}

/** The most identities for which each of the demands holds, and for all smaller numbers too. */
export interface Capacity {
  readonly ttlMs: number
  readonly bootInTime: number
  readonly fewRefusedAtBoot: number
  readonly fewRefusedAfterOutage: number
  readonly nothingLost: number
}

export async function findCapacity(
  settings: ScenarioSettings,
  bootGoalMs: number,
  progress: (variant: string, simulatedMs: number) => void,
): Promise<{ readonly table: string; readonly rows: readonly (Capacity & { readonly trials: readonly Trial[] })[] }> {
  const lifetimes = settings.ttlMs === undefined ? LIFETIMES_MS : [settings.ttlMs]
  const rows: (Capacity & { readonly trials: readonly Trial[] })[] = []
  for (const ttlMs of lifetimes) {
    const trials: Trial[] = []
    for (const load of LOADS) {
      const nodes = Math.max(1, Math.round((load * settings.rate) / settings.identities))
      const variant = `lifetime ${time(ttlMs / 1_000)}, ${whole(nodes)} nodes`
      trials.push(await tryOut({ ...settings, nodes, ttlMs }, ms => progress(variant, ms)))
      if ((trials.at(-1)?.bootS ?? 0) * 1_000 > bootGoalMs) break
    }
    rows.push({ ttlMs, ...judge(trials, bootGoalMs), trials })
  }
  return { table: toTable(rows, settings, bootGoalMs), rows }
}

async function tryOut(
  settings: ScenarioSettings & { readonly ttlMs: number },
  progress: (simulatedMs: number) => void,
): Promise<Trial> {
  const { ttlMs, outageMs } = settings
  const wanted: Omit<WorldSettings, 'outage'> = { ...settings, replicas: 1, skewMs: 0, rootsAnnounced: false }
  await using booted = await World.create({ ...wanted, outage: undefined }, progress)
  await bootAll(booted)
  const boot = booted.measure()
  const { world, afterMs } = await throughOutage(wanted, { outageMs, manner: 'refuse' }, progress)
  await using _ = world
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

/** `trials` grow; a demand that fails once has failed for everything larger. */
export function judge(trials: readonly Trial[], bootGoalMs: number): Omit<Capacity, 'ttlMs'> {
  const most = (holds: (trial: Trial) => boolean) => {
    const first = trials.findIndex(trial => !holds(trial))
    const good = first === -1 ? trials : trials.slice(0, first)
    return good.at(-1)?.identities ?? 0
  }
  return {
    bootInTime: most(({ bootS }) => bootS * 1_000 <= bootGoalMs),
    fewRefusedAtBoot: most(({ refusedAtBoot }) => refusedAtBoot < MOST_REFUSED),
    fewRefusedAfterOutage: most(({ refusedAfterOutage }) => refusedAfterOutage < MOST_REFUSED),
    nothingLost: most(({ lapsedIdentitySeconds }) => lapsedIdentitySeconds === 0),
  }
}

function toTable(rows: readonly Capacity[], { outageMs, identities }: ScenarioSettings, bootGoalMs: number): string {
  const header = [
    'lifetime',
    `all have one within ${time(bootGoalMs / 1_000)} of a start of all`,
    'under 1 % refused at that start',
    `an outage of ${time(outageMs / 1_000)} loses nothing`,
    'under 1 % refused after it',
    'identities one replica carries',
    'mean load',
  ]
  const cells = rows.map(row => {
    const { ttlMs, bootInTime, fewRefusedAtBoot, fewRefusedAfterOutage, nothingLost } = row
    const carried = Math.min(bootInTime, fewRefusedAtBoot, fewRefusedAfterOutage, nothingLost)
    return [
      time(ttlMs / 1_000),
      whole(bootInTime),
      whole(fewRefusedAtBoot),
      nothingLost === 0
        ? `no number (needs a lifetime over ${time(leastSafeTtl(outageMs) / 1_000)})`
        : whole(nothingLost),
      whole(fewRefusedAfterOutage),
      whole(carried),
      `${short((carried * 2_000) / ttlMs)}/s`,
    ]
  })
  return `${markdown(header, cells)}${identities} identities on each node. The largest size tried that holds, with all smaller ones.\n`
}
