/** Two nodes of one CA that changes its root: at every moment each takes the certificates that the other serves. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { CAChange, CAClient } from '../contract/ca-client.ts'
import { SecretManager } from '../secret-manager.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { makeIssuer, TestCA, type TestIssuer } from '../testing/test-ca.ts'
import { TestKeyGenerator } from '../testing/test-key-generator.ts'
import { splitCertificates } from '../x509/pem.ts'

const HOUR = 3_600_000
/** When B is there, and when A is gone: by then no leaf under it is left. */
const B_COMES = 14 * HOUR
const A_GOES = 82 * HOUR
const LAG = 40 * HOUR
const END = 125 * HOUR
const IDENTITIES = ['web', 'api'] as const

/** `signer`: the one that the chain leads to. */
type Answers = 'no roots' | 'signer' | 'both' | 'own: both'
/** `only new`: A is off the list as soon as B is there. `late`: the list has B an hour after the first answer. */
type Lists = 'no list' | 'polled' | 'pushed' | 'only new, polled' | 'only new, pushed' | 'late, polled'

interface Row {
  readonly answers: Answers
  readonly lists: Lists
  /** How long the second node's CA still signs under A while the first node's signs under B already. */
  readonly lagMs: number
  /** A replica that was not reloaded answers every other identity: under A, and with A alone. */
  readonly hasStaleReplica?: boolean
}

const rows: readonly Row[] = [
  { answers: 'both', lists: 'no list', lagMs: LAG },
  { answers: 'both', lists: 'no list', lagMs: LAG, hasStaleReplica: true },
  // Nothing says that A still signs for others: peers have it until their leaves under it end.
  { answers: 'signer', lists: 'no list', lagMs: 0 },
  ...(['no roots', 'signer', 'both'] as const).flatMap(answers => [
    { answers, lists: 'polled' as const, lagMs: LAG },
    { answers, lists: 'pushed' as const, lagMs: LAG },
    { answers, lists: 'late, polled' as const, lagMs: LAG },
  ]),
  { answers: 'no roots', lists: 'only new, polled', lagMs: 0 },
  { answers: 'no roots', lists: 'only new, pushed', lagMs: 0 },
  { answers: 'signer', lists: 'only new, polled', lagMs: 0 },
  { answers: 'signer', lists: 'only new, pushed', lagMs: 0 },
  { answers: 'both', lists: 'only new, polled', lagMs: LAG },
  { answers: 'both', lists: 'only new, pushed', lagMs: LAG },
  { answers: 'own: both', lists: 'no list', lagMs: LAG },
]

/** The CA, with one view for each node. */
class World {
  readonly clock: FakeClock
  readonly start: number
  readonly row: Row
  readonly a: TestIssuer
  readonly b: TestIssuer
  readonly listeners = new Set<(change: CAChange) => void>()
  readonly #signing: TestCA

  constructor(row: Row, clock: FakeClock, signing: TestCA, b: TestIssuer) {
    this.row = row
    this.clock = clock
    this.start = clock.now()
    this.a = signing.newestRoot()
    this.b = b
    this.#signing = signing
  }

  get elapsed(): number {
    return this.clock.now() - this.start
  }

  /** As a node sees it whose CA lags by `lagMs`. */
  view(lagMs: number): CAClient {
    const { answers, lists, hasStaleReplica } = this.row
    let count = 0
    return {
      issue: async request => {
        const isStale = hasStaleReplica && ++count % 2 === 0 && this.elapsed < B_COMES + LAG
        const signer = this.elapsed < B_COMES + lagMs || isStale ? this.a : this.b
        const { chain } = await this.#signing.sign(request, { issuer: signer })
        if (answers === 'no roots') return { chain }
        const roots = answers === 'signer' || isStale ? [signer.pem] : this.#roots()
        return { chain, roots, ...(answers === 'own: both' && { rootsFor: 'identity' }) }
      },
      ...(lists !== 'no list' && { trustBundle: async () => this.#list() }),
      ...(lists.endsWith('pushed') && {
        subscribe: listener => {
          this.listeners.add(listener)
          return { [Symbol.dispose]: () => void this.listeners.delete(listener) }
        },
      }),
      [Symbol.asyncDispose]: async () => {},
    }
  }

  notify(): void {
    for (const listener of this.listeners) listener({ kind: 'roots' })
  }

  #roots(): readonly string[] {
    if (this.elapsed < B_COMES) return [this.a.pem]
    return this.elapsed < A_GOES ? [this.a.pem, this.b.pem] : [this.b.pem]
  }

  #list(): readonly string[] {
    const { lists } = this.row
    if (lists.startsWith('late') && this.elapsed < B_COMES + HOUR) return [this.a.pem]
    return lists.startsWith('only new') && this.elapsed >= B_COMES ? [this.b.pem] : this.#roots()
  }
}

class Node implements AsyncDisposable {
  readonly manager: SecretManager
  readonly identities: readonly SpiffeId[]
  #wake = Promise.withResolvers<void>()

  constructor(world: World, name: string, lagMs: number) {
    this.manager = new SecretManager({
      ca: world.view(lagMs),
      clock: world.clock,
      keyGenerator: new TestKeyGenerator(),
      trustDomain: 'cluster.local',
      random: () => 0.5,
      rootsPollMs: HOUR / 2,
    })
    this.manager.events.subscribe(() => {
      this.#wake.resolve()
      this.#wake = Promise.withResolvers()
    })
    this.identities = IDENTITIES.map((account): SpiffeId => `spiffe://cluster.local/ns/${name}/sa/${account}`)
  }

  /** Signing takes real time. */
  async idle(): Promise<void> {
    while (this.manager.entries().some(({ renewAt }) => renewAt === undefined)) await this.#wake.promise
  }

  add(index: number): void {
    const identity = this.identities[index]
    if (identity !== undefined) this.manager.add(identity)
  }

  certificates(): readonly string[] {
    return this.identities.flatMap(identity => {
      const item = this.manager.current({ kind: 'identity', identity })
      return item?.kind === 'certificate' ? [Buffer.from(item.certificateChain).toString()] : []
    })
  }

  /** As the clients of each identity see them. */
  bundles(): readonly string[] {
    return this.identities.flatMap(identity => {
      const item = this.manager.current({ kind: 'bundle', trustDomain: 'cluster.local', identity })
      return item?.kind === 'bundle' ? [Buffer.from(item.trustedCa).toString()] : []
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.manager[Symbol.asyncDispose]()
  }
}

/** Why a client of `from` would refuse a server of `to`. */
function refusals(from: Node, to: Node): readonly string[] {
  const pairs = to.certificates().flatMap(certificate => from.bundles().map(bundle => [certificate, bundle] as const))
  return pairs.flatMap(([certificate, bundle]) => refusal(certificate, bundle) ?? [])
}

const verdicts = new Map<string, string | undefined>()

/** Most moments change neither. */
function refusal(certificate: string, bundle: string): string | undefined {
  const key = certificate + bundle
  if (verdicts.has(key)) return verdicts.get(key)
  const leaf = new X509Certificate(certificate)
  const roots = splitCertificates(bundle).map(pem => new X509Certificate(pem))
  const isTaken = roots.some(root => leaf.verify(root.publicKey))
  const names = roots.map(({ subject }) => subject).join(', ')
  const verdict = isTaken ? undefined : `${leaf.subjectAltName} under ${leaf.issuer} by [${names}]`
  verdicts.set(key, verdict)
  return verdict
}

/** Nothing is in flight, nor about to be. */
async function settle(nodes: readonly Node[]): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await setImmediate()
    for (const node of nodes) await node.idle()
  }
}

async function trial(row: Row): Promise<void> {
  const clock = new FakeClock()
  const signing = await TestCA.create(clock)
  const world = new World(row, clock, signing, await makeIssuer('CN=B', clock.now()))
  await using first = new Node(world, 'first', 0)
  await using second = new Node(world, 'second', row.lagMs)
  const nodes = [first, second]
  const stages = [
    { at: 0, begin: () => first.add(0) },
    { at: HOUR, begin: () => first.add(1) },
    { at: 5 * HOUR, begin: () => second.add(0) },
    { at: 8 * HOUR, begin: () => second.add(1) },
    ...[B_COMES, A_GOES].map(at => ({ at, begin: () => world.notify() })),
    { at: END, begin: () => {} },
  ]
  for (const { at, begin } of stages) {
    for (;;) {
      await settle(nodes)
      const failed = [...refusals(first, second), ...refusals(second, first)]
      assert.deepEqual(failed, [], `at ${(world.elapsed / HOUR).toFixed(2)} h`)
      if (world.elapsed >= at) break
      // Due work comes first: its requests take no time.
      const [next = Number.POSITIVE_INFINITY] = clock.deadlines()
      await clock.advance(Math.max(Math.min(next, world.start + at) - clock.now(), 0))
    }
    begin()
    await settle(nodes)
  }
  for (const node of nodes)
    for (const bundle of node.bundles())
      assert.equal(bundle, new X509Certificate(world.b.pem).toString(), 'A is gone in the end')
}

for (const row of rows) {
  const { answers, lists, lagMs, hasStaleReplica } = row
  const title = `answers: ${answers}; list: ${lists}; lag ${lagMs / HOUR} h${hasStaleReplica ? '; a stale replica' : ''}`
  test(`no request fails between two nodes if one moves hours before the other (${title})`, () => trial(row))
}
