/** One simulated world: time, CA and fleet, and its measurements. */
import { DEFAULT_OPTIONS } from '@livery/core'
import { type Root, RootReader } from '@livery/core/decide'
import type { CACapabilities } from '@livery/core/plugin'
import { makeIssuer } from '@livery/core/testing'
import { Fleet } from './fleet.ts'
import { ModelCA, type Outage } from './model-ca.ts'
import { quantile, type RateSummary, summarise } from './rates.ts'
import { seededRandom } from './seeded-random.ts'
import type { ServiceSummary } from './service-record.ts'
import { VirtualTime } from './virtual-time.ts'

/** The settings of a world; durations are milliseconds. */
export interface WorldSettings {
  readonly nodes: number
  /** The identities of each node. */
  readonly identities: number
  readonly ttlMs: number
  readonly replicas: number
  /** The signatures a second of each replica. */
  readonly rate: number
  /** Requests that may wait at a replica. */
  readonly queue: number
  /** The wait that a refusal asks for; `undefined`: none. */
  readonly retryAfterMs: number | undefined
  readonly roundTripMs: number
  readonly callTimeoutMs: number
  readonly bootWithinMs: number
  readonly skewMs: number
  readonly names: 'own' | 'shared'
  readonly roots: CACapabilities['roots']
  /** How long a new root settles; `undefined`: core's default. */
  readonly settleMs?: number | undefined
  /** Outages in order, counted from the start of the world. */
  readonly outages: readonly { readonly afterMs: number; readonly forMs: number; readonly manner: Outage['manner'] }[]
  readonly seed: number
}

/** The report of a scenario about a span of time. */
export interface Measured {
  /** Calls a second that tried to reach the CA, whatever their outcome. */
  readonly calls: RateSummary
  readonly signed: RateSummary
  /** The signatures a second of all replicas together. */
  readonly capacity: number
  /** Calls that the CA refused because its queue was full. */
  readonly refused: number
  /** Seconds from a call's arrival to its signature. */
  readonly latencyS: { readonly p50: number; readonly p99: number; readonly max: number }
  readonly service: ServiceSummary
  /** Calls by the second, for the plot. */
  readonly callsBySecond: Float64Array
}

export class World {
  readonly time: VirtualTime
  readonly ca: ModelCA
  readonly fleet: Fleet
  readonly settings: WorldSettings
  readonly #progress: (simulatedMs: number) => void
  #measuredFrom: number

  private constructor(settings: WorldSettings, root: Root, progress: (simulatedMs: number) => void) {
    const { outages, ttlMs } = settings
    this.settings = settings
    this.#progress = progress
    this.time = new VirtualTime()
    const { start } = this.time
    this.#measuredFrom = start
    this.ca = new ModelCA(
      {
        ...settings,
        time: this.time,
        random: seededRandom(settings.seed),
        timeoutMs: Math.min(settings.callTimeoutMs, DEFAULT_OPTIONS.timeoutMs),
        outages: outages.map(({ afterMs, forMs, manner }) => ({
          from: start + afterMs,
          until: start + afterMs + forMs,
          manner,
        })),
      },
      root,
    )
    this.fleet = new Fleet({ ...settings, time: this.time, ca: this.ca, ttlSeconds: ttlMs / 1_000 })
  }

  /** `progress` gets the simulated time so far, milliseconds. */
  static async create(settings: WorldSettings, progress: (simulatedMs: number) => void): Promise<World> {
    return new World(settings, await makeRoot(1), progress)
  }

  /** Milliseconds since the start of the world. */
  get elapsedMs(): number {
    return this.time.now() - this.time.start
  }

  /** Runs until `elapsedMs` is `until`, or `isDone` returns true; it is asked every `stepMs`. */
  runUntil(until: number, isDone: () => boolean = () => false, stepMs = 10_000): void {
    while (this.elapsedMs < until && !isDone()) {
      this.time.runUntil(this.time.start + Math.min(this.elapsedMs + stepMs, until))
      this.#progress(this.elapsedMs)
    }
  }

  /** Signs under a new root from now on. */
  async rotateRoot(): Promise<void> {
    this.ca.addRoot(await makeRoot(2))
  }

  /** Starts the span of `measure`, which does not count earlier load. */
  startMeasuring(): void {
    this.#measuredFrom = this.time.now()
    this.ca.forgetWaits()
  }

  /** The load until now, or until `untilMs` since the start; the workloads' record covers the whole run. Call it once. */
  measure(untilMs: number = this.elapsedMs): Measured {
    const { ca, time, settings } = this
    const [from, until] = [this.#measuredFrom, time.start + untilMs]
    const callsBySecond = ca.calls.between(from, until)
    const waits = ca.waits.all()
    const seconds = (fraction: number) => quantile(waits, fraction) / 1_000
    return {
      calls: summarise(callsBySecond),
      signed: summarise(ca.signed.between(from, until)),
      capacity: settings.rate * settings.replicas,
      refused: summarise(ca.refused.between(from, until)).total,
      latencyS: { p50: seconds(0.5), p99: seconds(0.99), max: seconds(1) },
      service: this.fleet.service.finish(time.now()),
      callsBySecond,
    }
  }
}

async function makeRoot(number: number): Promise<Root> {
  // A root that is valid only from the real today would be too late for a world in the past.
  const { pem } = await makeIssuer(`CN=root ${number}`, new VirtualTime().start)
  const root = new RootReader().readOne(pem)
  if (typeof root === 'string') throw new TypeError(`Cannot simulate with this root: ${root}`)
  return root
}
