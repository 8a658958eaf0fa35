import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { StreamReceipts } from '../identity/receipts.ts'
import { TrustBundleSecret } from '../identity/secret-item.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { BundleReceipts } from './bundle-receipts.ts'
import { RootRotation } from './root-rotation.ts'

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

/** A rotation with streams that a test opens, as a server would. */
class Rotating {
  readonly clock = new FakeClock()
  readonly trusted: string[] = []
  readonly reports: string[] = []
  readonly receipts: BundleReceipts
  readonly rotation: RootRotation

  constructor() {
    const rotation = new RootRotation({
      clock: this.clock,
      ackWaitMs: ACK_WAIT,
      receipts: () => this.receipts.of('spiffe://td'),
      report: (fingerprint, phase, reason) => this.reports.push(`${fingerprint} ${phase}: ${reason}`),
      onTrusted: fingerprint => this.trusted.push(fingerprint),
    })
    this.rotation = rotation
    this.receipts = new BundleReceipts(rotation)
  }

  announce(fingerprint = 'new', settleMs = SETTLE): void {
    const learnedAt = this.clock.now()
    this.rotation.announce(fingerprint, { learnedAt, settlesAt: learnedAt + settleMs })
  }

  /** A stream that has accepted the old bundle. */
  client(name: string): StreamReceipts {
    const stream = this.receipts.open(() => name)
    stream.sent(OLD)
    stream.accepted(OLD)
    return stream
  }

  waitsFor(fingerprint = 'new'): readonly string[] {
    return this.rotation.waitsFor(fingerprint).map(({ client, reason }) => (reason ? `${client}: ${reason}` : client))
  }
}

test('an announcement ends when every client has accepted a bundle with the root, and not before the settle time', async () => {
  const rotating = new Rotating()
  const { clock, rotation, trusted } = rotating
  const [a, b] = [rotating.client('a'), rotating.client('b')]
  rotating.announce()
  assert.deepEqual(rotating.waitsFor(), ['a', 'b'])
  a.accepted(BOTH)
  b.accepted(OLD)
  await clock.advance(SETTLE)
  assert.deepEqual(rotating.waitsFor(), ['b'])
  assert.equal(rotation.isTrusted('new'), false)
  b.accepted(BOTH)
  assert.deepEqual(trusted, ['new'])
  assert.equal(rotation.isTrusted('new'), true)
  assert.deepEqual(rotating.reports, [
    'new announcing: 2 clients to learn it first',
    'new trusted: every client has it',
  ])
  assert.deepEqual(clock.deadlines(), [])
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
  const { clock, rotation, trusted } = rotating
  const client = rotating.client('a')
  rotating.announce()
  rotation.hold('new')
  client.accepted(BOTH)
  await clock.advance(2 * ACK_WAIT)
  assert.deepEqual(trusted, [])
  rotation.resume('new')
  assert.deepEqual(trusted, ['new'])
  rotation.hold('new')
  assert.equal(rotation.isTrusted('new'), false)
  rotation.resume('new')
  assert.deepEqual(trusted, ['new', 'new'])
  rotation.resume('new')
  assert.deepEqual(trusted, ['new', 'new'], 'there was nothing to resume')

  rotating.announce('newer')
  client.rejected(bundle('old', 'new', 'newer'), 'no')
  rotation.resume('newer')
  assert.equal(rotation.isTrusted('newer'), false, 'the settle time holds for operators, too')
  await clock.advance(SETTLE)
  assert.deepEqual(trusted, ['new', 'new', 'newer'])
})

test('two rotations at once end one by one', async () => {
  const rotating = new Rotating()
  const { clock, trusted } = rotating
  const client = rotating.client('a')
  rotating.announce('new')
  await clock.advance(SETTLE / 2)
  rotating.announce('newer')
  client.accepted(BOTH)
  await clock.advance(SETTLE / 2)
  assert.deepEqual(trusted, ['new'])
  client.rejected(bundle('old', 'new', 'newer'), 'too many')
  await clock.advance(SETTLE)
  assert.deepEqual(trusted, ['new'])
  client.accepted(bundle('old', 'new', 'newer'))
  assert.deepEqual(trusted, ['new', 'newer'])
})

test('a root that is given up half way is forgotten: nothing waits for it', async () => {
  const rotating = new Rotating()
  rotating.client('a')
  rotating.announce()
  rotating.rotation.hold('new')
  rotating.rotation.forget('new')
  assert.deepEqual(rotating.clock.deadlines(), [])
  assert.deepEqual(rotating.waitsFor(), [])
  rotating.announce()
  assert.equal(rotating.rotation.isHeld('new'), false)
})

test('at most 20 clients are named, those that reject it first', () => {
  const rotating = new Rotating()
  const clients = Array.from({ length: 30 }, (_, index) => rotating.client(`client ${index}`))
  rotating.announce()
  clients[29]?.rejected(BOTH, 'no')
  assert.equal(rotating.waitsFor().length, 20)
  assert.equal(rotating.waitsFor()[0], 'client 29: no')
  assert.equal(rotating.rotation.waiting('new'), 30)
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
  const { rotation } = rotating
  if (step.do === 'hold') rotation.hold('new')
  else if (step.do === 'resume') rotation.resume('new')
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
    const { clock, rotation } = rotating
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
      assert.equal(rotation.isTrusted('new'), hasEnded && !isHeld)
    }
    rotation[Symbol.dispose]()
    assert.deepEqual(clock.deadlines(), [])
  })
  await fc.assert(run, { numRuns: 300 })
})
