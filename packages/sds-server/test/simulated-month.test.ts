/**
 * Thirty days of a node with 1,000 identities and 40 pairs in files, in virtual time: sleeps, clocks that are wrong, outages,
 * new roots, rejections, volumes that the kubelet fills again. Half of the Envoys use Delta. No Envoy may be without a valid
 * certificate for a second that could have been avoided: one in which the CA was there, the machine ran and its clock was right,
 * and had been for half a minute. Pairs in files need none of these. LIVERY_SEED chooses another course.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SecretManager } from '@livery/core'
import { isSpiffeId, type SpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { parseAllow } from '../src/access/allow-rules.ts'
import { Permission } from '../src/access/permission.ts'
import { MessageComposer } from '../src/protocol/discovery-message.ts'
import { FakeEnvoy } from './simulated-month/fake-envoy.ts'
import { MountedPairs } from './simulated-month/mounted-pairs.ts'
import { oneKey, QuickCA } from './simulated-month/quick-ca.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const STEP = 30_000
const IDENTITIES = 1_000
/** Half a lifetime is left at an outage, so that one of two days costs some of the certificates. */
const TTL = 72 * HOUR

const names = Array.from(
  { length: IDENTITIES },
  (_, index): SpiffeId => `spiffe://cluster.local/ns/month/sa/sa-${index}`,
)

/** The same seed gives the same course: mulberry32. */
function seededRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

class Month implements AsyncDisposable {
  readonly clock = new FakeClock()
  /** Seeds of the course, of the rejections, and of the files, whose events come when the kernel has them: none changes another. */
  readonly random: () => number
  readonly #rejectRandom: () => number
  readonly #fileRandom: () => number
  readonly ca: QuickCA
  readonly manager: SecretManager
  readonly mounted: MountedPairs
  /** Envoys with the identities. */
  readonly envoys: readonly FakeEnvoy[]
  /** Envoys with the pairs in files. */
  fileEnvoys: readonly FakeEnvoy[] = []
  readonly #view: Permission
  readonly #messages = new MessageComposer('month')
  /** How far the node's clock is ahead of the true time, milliseconds. */
  #clockError = 0
  #rejecting = 0
  #disturbances = 0
  #calmSince = 0
  /** The first ones, and how many there were. */
  readonly avoidable: string[] = []
  avoidableCount = 0
  unavoidableSeconds = 0

  /** `folder`: for the pairs in files. */
  constructor(seed: number, folder: string) {
    this.random = seededRandom(seed)
    this.#rejectRandom = seededRandom(seed + 1_000_000)
    this.#fileRandom = seededRandom(seed + 2_000_000)
    this.ca = new QuickCA(() => this.trueNow())
    const { clock, ca } = this
    this.mounted = new MountedPairs({
      clock,
      folder,
      random: this.#fileRandom,
      trueNow: () => this.trueNow(),
      onWithdrawn: name => this.#blame(name, 'withdrawn'),
    })
    this.manager = new SecretManager({
      ca,
      clock,
      random: seededRandom(seed + 3_000_000),
      files: this.mounted.files,
      keyGenerator: oneKey,
      trustDomain: 'cluster.local',
      ttlSeconds: TTL / 1_000,
    })
    this.manager.events.subscribe(({ name, event }) => {
      if (event.kind === 'withdrawn' && isSpiffeId(name)) this.#judge(name, 'withdrawn')
    })
    const grant = { source: this.manager, names: { default: 'default', root: 'ROOTCA', all: 'ALL' }, onDemand: false }
    this.#view = new Permission(grant, [parseAllow(['spiffe://cluster.local/**', `file-cert:${folder}/**`])])
    for (const identity of names) this.manager.add(identity)
    this.envoys = names.map((identity, index) => this.#connect(identity, index, this.#rejectRandom))
  }

  async start(): Promise<void> {
    await this.ca.addRoot()
    this.fileEnvoys = await this.mounted.start((name, index) => this.#connect(name, index, this.#fileRandom))
    await this.disturb(
      MINUTE,
      () => {},
      () => {},
    )
  }

  trueNow(): number {
    return this.clock.now() - this.#clockError
  }

  /** Lets time pass and looks at every Envoy each half minute. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= STEP) {
      const end = this.clock.now() + STEP
      await this.mounted.swapDue()
      // A new pair is not valid yet by a clock that is behind.
      if (this.#clockError === 0) await this.mounted.settle()
      await this.clock.advance(Math.max(0, end - this.clock.now()))
      for (const envoy of this.envoys) if (this.#lacks(envoy)) this.#judge(envoy.name, stateOf(envoy))
      for (const envoy of this.fileEnvoys) if (this.#lacks(envoy)) this.#blame(envoy.name, stateOf(envoy))
    }
  }

  /** Nobody can be blamed while it lasts, and half a minute longer. */
  async disturb(ms: number, begin: () => void, end: () => void): Promise<void> {
    this.#disturbances++
    begin()
    await this.pass(ms)
    end()
    this.#disturbances--
    this.#calmSince = this.trueNow()
  }

  async outage(ms: number, away: 'refuse' | 'silent'): Promise<void> {
    const end = () => {
      this.ca.away = 'no'
    }
    await this.disturb(
      ms,
      () => {
        this.ca.away = away
      },
      end,
    )
  }

  /** True time passes, and nothing runs. */
  sleep(ms: number): void {
    this.clock.jump(ms)
    this.#calmSince = this.trueNow()
  }

  async wrongClock(aheadMs: number, ms: number): Promise<void> {
    const set = (by: number) => {
      this.#clockError += by
      this.clock.jump(by)
    }
    await this.disturb(
      ms,
      () => set(aheadMs),
      () => set(-aheadMs),
    )
  }

  /** Within the five minutes that every clock may be off. */
  async skewedCA(skewMs: number, ms: number): Promise<void> {
    this.ca.skewMs = skewMs
    await this.pass(ms)
    this.ca.skewMs = 0
  }

  /** An Envoy that rejected a certificate keeps what it has, by its own will, until it opens its streams again. */
  async rejections(share: number): Promise<void> {
    this.#rejecting = share
    await this.pass(6 * HOUR)
    this.#rejecting = 0
    for (const envoy of [...this.envoys, ...this.fileEnvoys]) envoy.connect()
  }

  /** Every leaf that an Envoy has ends under a root that every other one has. */
  expectMutualTrust(): void {
    const used = new Set(this.manager.entries().flatMap(({ root }) => (root ? [root.fingerprint] : [])))
    for (const { name, roots } of this.envoys)
      for (const fingerprint of used) assert.ok(roots?.has(fingerprint), `${name} does not know ${fingerprint}`)
  }

  #connect(name: string, index: number, random: () => number): FakeEnvoy {
    return new FakeEnvoy({
      name,
      form: index % 2 === 0 ? 'sotw' : 'delta',
      view: this.#view,
      source: this.manager,
      messages: this.#messages,
      receipts: this.manager.receipts,
      rejects: () => random() < this.#rejecting,
      onFault: fault => this.#blame(name, fault),
    })
  }

  #lacks({ certificate, hasRejected }: FakeEnvoy): boolean {
    const now = this.trueNow()
    if (hasRejected) return false
    return !certificate || certificate.notBefore > now + 5 * MINUTE || certificate.notAfter <= now
  }

  #judge(identity: string, state: string): void {
    const isCalm = this.#disturbances === 0 && this.trueNow() - this.#calmSince >= STEP
    if (!isCalm) this.unavoidableSeconds += STEP / 1_000
    else this.#blame(identity, state)
  }

  #blame(name: string, state: string): void {
    if (this.avoidableCount++ < 5) this.avoidable.push(`${name} ${state} at ${new Date(this.trueNow()).toISOString()}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const envoy of [...this.envoys, ...this.fileEnvoys]) envoy[Symbol.dispose]()
    this.mounted[Symbol.dispose]()
    await this.manager[Symbol.asyncDispose]()
  }
}

function stateOf({ certificate }: FakeEnvoy): string {
  return certificate ? 'expired' : 'missing'
}

test('in thirty days of sleeps, wrong clocks, outages, new roots, swapped files and rejections no Envoy lacks a certificate that it could have', {
  // 20 s of the CPU; a machine that is busy with other things takes longer.
  timeout: 300_000,
}, async t => {
  const seed = Number(process.env['LIVERY_SEED'] ?? 1)
  const folder = temporaryFolder(t)
  await using month = new Month(seed, folder)
  const { random } = month
  await month.start()
  const between = (least: number, most: number) => Math.round((least + (most - least) * random()) / STEP) * STEP
  const start = month.trueNow()
  let course: string[] = []
  const incidents: Readonly<Record<string, () => Promise<void> | void>> = {
    outage: () => month.outage(between(10 * MINUTE, 6 * HOUR), 'refuse'),
    silence: () => month.outage(between(MINUTE, 2 * HOUR), 'silent'),
    sleep: () => month.sleep(between(MINUTE, 10 * HOUR)),
    back: () => month.wrongClock(-between(10 * MINUTE, 3 * HOUR), between(MINUTE, 2 * HOUR)),
    ahead: () => month.wrongClock(between(10 * MINUTE, 3 * HOUR), between(MINUTE, 2 * HOUR)),
    'skewed CA': () => month.skewedCA(between(-4 * MINUTE, 4 * MINUTE), 6 * HOUR),
    'new root': () => month.ca.addRoot(),
    'old roots go': () => month.ca.dropOldRoots(),
    rejections: () => month.rejections(0.2),
  }
  const kinds = Object.keys(incidents)
  while (month.trueNow() - start < 30 * DAY) {
    if (course.length === kinds.length) await month.outage(45 * HOUR, 'refuse')
    const kind = kinds[course.length < kinds.length ? course.length : Math.floor(random() * kinds.length)] ?? 'sleep'
    course = [...course, kind]
    await incidents[kind]?.()
    await month.pass(between(2 * HOUR, 20 * HOUR))
    month.expectMutualTrust()
  }
  t.diagnostic(
    `seed ${seed}: ${course.length} incidents (${course.join(', ')}), ${month.ca.signed} certificates, ${month.ca.calls} calls, ${month.mounted.swaps} swaps of files, ${month.unavoidableSeconds} unavoidable seconds`,
  )
  assert.deepEqual(month.avoidable, [], `${month.avoidableCount} in all`)
  assert.ok(month.unavoidableSeconds > 0, 'the long outage cost nobody anything: nothing was shown')
})
