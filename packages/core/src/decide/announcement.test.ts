import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { TestBed } from '../../test/decide-bed.ts'
import type { Root } from '../contract/trust-anchor.ts'
import { TrustBundleSecret } from '../secrets/secret-item.ts'
import { makeIssuer } from '../testing/test-ca.ts'
import type { StreamReceipts } from '../trust/bundle-receipts.ts'
import type { BundleRoot } from '../trust/bundle-root.ts'
import type { RootAction } from '../trust/rotation-status.ts'
import { statusOf } from '../trust/rotation-status.ts'

const SETTLE = 10_000
const ACK_WAIT = 60_000

function bundle(...fingerprints: string[]): TrustBundleSecret {
  return new TrustBundleSecret({
    name: 'spiffe://td',
    version: fingerprints.join('+'),
    trustedCa: Buffer.alloc(0),
    fingerprints: new Set(fingerprints),
  })
}

const OLD = bundle('old')
const BOTH = bundle('old', 'new')

const { pem } = await makeIssuer('CN=any', Date.UTC(2026, 0, 1))
const certificate = new X509Certificate(pem)

function root(fingerprint: string): Root {
  return { fingerprint, pem, certificate, notBefore: 0, notAfter: Number.MAX_SAFE_INTEGER }
}

/** A bundle with the root `old`, and streams that a test opens, as a server would. */
class Rotating {
  readonly bed = new TestBed({ trustDomain: 'td', settleMs: SETTLE, ackWaitMs: ACK_WAIT })
  readonly clock = this.bed.clock
  readonly receipts = this.bed.receipts
  readonly #listed = ['old']

  constructor() {
    this.#list()
    // No two roots are learned in one millisecond.
    this.clock.jump(1)
  }

  get reports(): readonly string[] {
    return this.bed.reports.flatMap(({ event }) =>
      event.kind === 'root-phase' ? [`${event.fingerprint} ${event.phase}: ${event.reason}`] : [],
    )
  }

  get trusted(): readonly string[] {
    return this.reports.filter(report => report.includes(' trusted: ')).map(report => report.split(' ')[0] ?? '')
  }

  /** The CA lists one more root. */
  announce(fingerprint = 'new'): void {
    this.#listed.push(fingerprint)
    this.#list()
  }

  change(action: RootAction, fingerprint = 'new'): void {
    this.bed.dispatch({ kind: 'rootChanged', bundle: this.#bundle, fingerprint, action })
  }

  isTrusted(fingerprint = 'new'): boolean {
    return this.#bundle.roots.isTrusted(fingerprint)
  }

  /** A stream that has accepted the old bundle. */
  client(name: string): StreamReceipts {
    const stream = this.receipts.open(() => name)
    stream.sent(OLD)
    stream.accepted(OLD)
    return stream
  }

  root(fingerprint = 'new'): BundleRoot {
    return this.#bundle.roots.get(fingerprint) ?? assert.fail(`${fingerprint} is not held`)
  }

  waitsFor(fingerprint = 'new'): readonly string[] {
    const { waitsFor } = statusOf(this.#bundle, this.root(fingerprint), this.clock.now())
    return waitsFor.map(({ client, reason }) => (reason ? `${client}: ${reason}` : client))
  }

  get #bundle() {
    return this.bed.state.bundles.get('td') ?? assert.fail('no root is held')
  }

  #list(): void {
    const read = { roots: this.#listed.map(root), rejected: [], isWhole: true, validFrom: undefined }
    this.bed.dispatch({ kind: 'rootsListed', read })
  }
}

test('an announcement ends when every client has accepted a bundle with the root, and not before the settle time', async () => {
  const rotating = new Rotating()
  const { clock } = rotating
  const [a, b] = [rotating.client('a'), rotating.client('b')]
  rotating.announce()
  assert.deepEqual(rotating.waitsFor(), ['a', 'b'])
  a.accepted(BOTH)
  b.accepted(OLD)
  await clock.advance(SETTLE)
  assert.deepEqual(rotating.waitsFor(), ['b'])
  assert.equal(rotating.isTrusted(), false)
  b.accepted(BOTH)
  assert.deepEqual(rotating.trusted, ['new'])
  assert.equal(rotating.isTrusted(), true)
  assert.deepEqual(rotating.reports, [
    'new announcing: 2 clients must accept it first',
    'new trusted: every client has it',
  ])
})

test('a later bundle that has the root counts as one that has it', async () => {
  const rotating = new Rotating()
  const client = rotating.client('a')
  rotating.announce()
  client.accepted(bundle('old', 'new', 'newer'))
  await rotating.clock.advance(SETTLE)
  assert.deepEqual(rotating.trusted, ['new'])
})

test('silent clients are waited for up to the bound, and the report says how many they were', async () => {
  const rotating = new Rotating()
  rotating.client('silent')
  rotating.announce()
  await rotating.clock.advance(ACK_WAIT - 1)
  assert.deepEqual(rotating.trusted, [])
  await rotating.clock.advance(1)
  assert.deepEqual(rotating.trusted, ['new'])
  assert.equal(rotating.reports.at(-1), 'new trusted: 1 client said nothing')
})

test('a client that rejects the root holds it without an end and is named; accepting it later or leaving ends that', async () => {
  for (const end of ['accepts', 'leaves'] as const) {
    const rotating = new Rotating()
    const client = rotating.client('web')
    rotating.announce()
    client.rejected(BOTH, 'no such curve')
    client.rejected(BOTH, 'no such curve')
    await rotating.clock.advance(100 * ACK_WAIT)
    assert.deepEqual(rotating.trusted, [])
    assert.deepEqual(rotating.waitsFor(), ['web: no such curve'])
    assert.deepEqual(rotating.reports.slice(1), ['new announcing: web rejects it: no such curve'])
    if (end === 'accepts') client.accepted(BOTH)
    else client[Symbol.dispose]()
    assert.deepEqual(rotating.trusted, ['new'], end)
  }
})

test('a closed stream counts no longer', async () => {
  const rotating = new Rotating()
  const client = rotating.client('a')
  rotating.announce()
  await rotating.clock.advance(SETTLE)
  assert.deepEqual(rotating.trusted, [])
  client[Symbol.dispose]()
  assert.deepEqual(rotating.trusted, ['new'])
  assert.deepEqual([...rotating.receipts.of('spiffe://td')], [])
})

test('a stream that was first sent a bundle with the root is not waited for; one that was sent an older one is', async () => {
  const rotating = new Rotating()
  rotating.announce()
  rotating.receipts.open(() => 'late').sent(BOTH)
  const behind = rotating.receipts.open(() => 'behind')
  behind.sent(OLD)
  behind.sent(BOTH)
  await rotating.clock.advance(SETTLE)
  assert.deepEqual(rotating.waitsFor(), ['behind'])
  behind.accepted(BOTH)
  assert.deepEqual(rotating.trusted, ['new'])
})

test('a client that has rejected every bundle uses none, and holds nothing', async () => {
  const rotating = new Rotating()
  const before = rotating.receipts.open(() => 'asks for the bundle as a certificate')
  before.sent(OLD)
  before.rejected(OLD, 'incomplete private key')
  rotating.announce()
  const after = rotating.receipts.open(() => 'and so does this one')
  after.sent(OLD)
  after.rejected(OLD, 'incomplete private key')
  for (const client of [before, after]) client.rejected(BOTH, 'incomplete private key')
  await rotating.clock.advance(SETTLE)
  assert.deepEqual(rotating.trusted, ['new'])
})

test('an operator holds a root in any phase; resume continues, also past a client that rejects it', async () => {
  const rotating = new Rotating()
  const { clock } = rotating
  const client = rotating.client('a')
  rotating.announce()
  rotating.change('hold')
  client.accepted(BOTH)
  await clock.advance(2 * ACK_WAIT)
  assert.deepEqual(rotating.trusted, [])
  rotating.change('resume')
  assert.deepEqual(rotating.trusted, ['new'])
  rotating.change('hold')
  assert.equal(rotating.isTrusted(), false)
  rotating.change('resume')
  assert.deepEqual(rotating.trusted, ['new', 'new'])
  rotating.change('resume')
  assert.deepEqual(rotating.trusted, ['new', 'new'], 'there was nothing to resume')

  rotating.announce('newer')
  client.rejected(bundle('old', 'new', 'newer'), 'no')
  rotating.change('resume', 'newer')
  assert.equal(rotating.isTrusted('newer'), false, 'the settle time holds for operators, too')
  await clock.advance(SETTLE)
  assert.deepEqual(rotating.trusted, ['new', 'new', 'newer'])
})

test('two rotations at once end one by one', async () => {
  const rotating = new Rotating()
  const { clock } = rotating
  const client = rotating.client('a')
  rotating.announce('new')
  await clock.advance(SETTLE / 2)
  rotating.announce('newer')
  client.accepted(BOTH)
  await clock.advance(SETTLE / 2)
  assert.deepEqual(rotating.trusted, ['new'])
  client.rejected(bundle('old', 'new', 'newer'), 'too many')
  await clock.advance(SETTLE)
  assert.deepEqual(rotating.trusted, ['new'])
  client.accepted(bundle('old', 'new', 'newer'))
  assert.deepEqual(rotating.trusted, ['new', 'newer'])
})

test('a root that an operator drops half way: nothing waits for it', () => {
  const rotating = new Rotating()
  rotating.client('a')
  rotating.announce()
  rotating.change('hold')
  rotating.change('drop')
  assert.deepEqual([rotating.waitsFor(), rotating.root().isHeld], [[], false])
})

test('at most 20 clients are named, those that reject it first', () => {
  const rotating = new Rotating()
  const clients = Array.from({ length: 30 }, (_, index) => rotating.client(`client ${index}`))
  rotating.announce()
  clients[29]?.rejected(BOTH, 'no')
  assert.equal(rotating.waitsFor().length, 20)
  assert.equal(rotating.waitsFor()[0], 'client 29: no')
  assert.equal(rotating.root().announcement?.silent.size, 29)
})

type Step =
  | { readonly do: 'open' | 'close' | 'accept' | 'accept-old' | 'reject'; readonly client: number }
  | { readonly do: 'hold' | 'resume' }
  | { readonly do: 'advance'; readonly ms: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom('open' as const, 'close', 'accept', 'accept-old', 'reject'),
      client: fc.nat(3),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('hold' as const, 'hold', 'resume') }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(1, SETTLE / 2, SETTLE, ACK_WAIT) }),
  },
)

/** The rules for each client, without the machinery. */
interface Model {
  readonly stream: StreamReceipts
  has: 'old' | 'new' | 'rejects new'
}

function apply(rotating: Rotating, clients: (Model | undefined)[], step: Step): void {
  if (step.do === 'hold') rotating.change('hold')
  else if (step.do === 'resume') rotating.change('resume')
  if (!('client' in step)) return
  const client = clients[step.client]
  if (step.do === 'open' && !client) clients[step.client] = openLate(rotating, step.client)
  if (!client) return
  if (step.do === 'close') {
    client.stream[Symbol.dispose]()
    clients[step.client] = undefined
  } else if (step.do === 'accept') {
    client.stream.accepted(BOTH)
    client.has = 'new'
  } else if (step.do === 'accept-old' && client.has === 'old') client.stream.accepted(OLD)
  else if (step.do === 'reject') {
    client.stream.rejected(BOTH, 'no')
    if (client.has === 'old') client.has = 'rejects new'
  }
}

function openLate(rotating: Rotating, index: number): Model {
  const stream = rotating.receipts.open(() => `late ${index}`)
  stream.sent(BOTH)
  return { stream, has: 'new' }
}

test('whatever clients and operators do: never trusted too early, and trusted as soon as nothing is against it', async () => {
  const run = fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), async steps => {
    const rotating = new Rotating()
    const { clock } = rotating
    const start = clock.now()
    const clients: (Model | undefined)[] = [0, 1].map(index => ({
      stream: rotating.client(`${index}`),
      has: 'old' as const,
    }))
    rotating.announce()
    let isHeld = false
    let ignoresRejections = false
    let hasEnded = false
    for (const each of steps) {
      if (each.do === 'hold') isHeld = true
      if (each.do === 'resume') [isHeld, ignoresRejections] = [false, true]
      if (each.do === 'advance') await clock.advance(each.ms)
      else apply(rotating, clients, each)
      const passed = clock.now() - start
      const has = (what: Model['has']): boolean => clients.some(client => client?.has === what)
      const isFree: boolean =
        !isHeld && (ignoresRejections || !has('rejects new')) && (!has('old') || passed >= ACK_WAIT)
      hasEnded ||= isFree && passed >= SETTLE
      assert.equal(rotating.isTrusted(), hasEnded && !isHeld)
    }
  })
  await fc.assert(run, { numRuns: 300 })
})
