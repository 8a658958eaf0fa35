/** The pairs in files of a simulated month: replaced long before they end, and each served soon after, whatever else happens. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { plainKeyVault } from '@livery/core'
import { FileSecrets } from '@livery/core/file-secrets'
import type { Clock } from '@livery/core/plugin'
import type { FakeClock } from '@livery/core/testing'
import type { FakeEnvoy } from './fake-envoy.ts'
import { MountedPair } from './mounted-pair.ts'
import { QuickCA } from './quick-ca.ts'

const HOUR = 3_600_000
const COUNT = 40
const TTL_SECONDS = 72 * 3_600
/** All that are due in it are replaced at its end. */
const ROUND = 12 * HOUR
/** How often the files are looked at where no event comes: each minute of a month would be too much for a test. */
const POLL = 6 * HOUR
/** The time in which a written pair is served; the events come when the kernel has them. */
const LOOK = 50

interface MountedPairsOptions {
  readonly clock: FakeClock
  readonly trueNow: () => number
  readonly random: () => number
  /** Where the volumes are made. */
  readonly folder: string
  /** Called when a pair is served no longer. */
  readonly onWithdrawn: (name: string) => void
}

export class MountedPairs implements Disposable {
  readonly files: FileSecrets
  swaps = 0
  readonly #options: MountedPairsOptions
  readonly #ca: QuickCA
  readonly #envoys = new Map<MountedPair, FakeEnvoy>()

  constructor(options: MountedPairsOptions) {
    const { clock, folder, trueNow, onWithdrawn } = options
    this.#options = options
    this.#ca = new QuickCA(trueNow)
    this.files = openFiles(clock, folder, onWithdrawn)
  }

  /** Writes them, and has an Envoy stream each. */
  async start(connect: (name: string, index: number) => FakeEnvoy): Promise<readonly FakeEnvoy[]> {
    await this.#ca.addRoot()
    for (let index = 0; index < COUNT; index++) {
      const pair = this.#ca.pair(`spiffe://cluster.local/mounted/${index}`, TTL_SECONDS)
      const mounted = new MountedPair(join(this.#options.folder, `${index}`), pair, this.#nextTime())
      this.#envoys.set(mounted, connect(mounted.name, index))
    }
    await this.settle()
    return [...this.#envoys.values()]
  }

  /** Replaces those whose time has come. */
  async swapDue(): Promise<void> {
    for (const mounted of this.#envoys.keys()) if (mounted.dueAt <= this.#options.trueNow()) await this.#swap(mounted)
  }

  /** Time passes until what was written last is what every Envoy has. */
  settle(): Promise<void> {
    return this.#until(() => {
      const stale = this.#stale()
      return stale && `${stale.name} is not what its files have`
    })
  }

  [Symbol.dispose](): void {
    this.files[Symbol.dispose]()
  }

  /** Some get the certificate first, and some are replaced twice in a row. */
  async #swap(mounted: MountedPair): Promise<void> {
    const kind = this.#options.random()
    if (kind < 0.1) {
      mounted.swapChain(this.#successor(mounted))
      await this.#until(() => this.#faultOf(mounted) === undefined && `the half pair of ${mounted.name} is not refused`)
    } else if (kind < 0.2) mounted.swap(this.#successor(mounted))
    mounted.swap(this.#successor(mounted))
    mounted.dueAt = this.#nextTime()
    this.swaps++
  }

  /** Time passes, with turns in which files are read, until nothing is wrong; not even two polls may leave it so. */
  async #until(wrong: () => string | false | undefined): Promise<void> {
    const { clock } = this.#options
    const end = clock.now() + 2 * POLL
    for (let what = wrong(); what; what = wrong()) {
      assert.ok(clock.now() < end, what)
      for (let turn = 0; turn < 5; turn++) await setImmediate()
      await clock.advance(LOOK)
    }
  }

  #faultOf({ name }: MountedPair): string | undefined {
    return this.files.entries().find(entry => entry.name === name)?.fault
  }

  #successor({ name, pair }: MountedPair) {
    return this.#ca.pair(name, TTL_SECONDS, pair)
  }

  /** The next renewal: after a third to two thirds of their life. */
  #nextTime(): number {
    const { trueNow, random } = this.#options
    return ROUND * Math.ceil((trueNow() + 24 * HOUR * (1 + random())) / ROUND)
  }

  #stale(): FakeEnvoy | undefined {
    for (const [{ pair }, envoy] of this.#envoys)
      if (!envoy.hasRejected && envoy.certificate?.serialNumber !== pair.serialNumber) return envoy
    return undefined
  }
}

function openFiles(clock: Clock, folder: string, onWithdrawn: (name: string) => void): FileSecrets {
  return new FileSecrets({
    clock,
    vault: plainKeyVault,
    folders: [folder],
    pollMs: POLL,
    onWatchError: error => assert.fail(String(error)),
    report: (name, { kind }) => {
      if (kind === 'withdrawn') onWithdrawn(name)
    },
  })
}
