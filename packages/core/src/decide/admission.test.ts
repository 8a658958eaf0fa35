import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { SecretManager } from '../secret-manager.ts'
import type { SecretItem } from '../secrets/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const MINUTE = 60_000
const HOUR = 60 * MINUTE

function workload(index: number): SpiffeId {
  return `spiffe://cluster.local/ns/load/sa/sa-${index}`
}

function held(manager: SecretManager): SpiffeId[] {
  return [...manager.identities()]
}

function subscribe(bench: Bench, identity: SpiffeId, items: (SecretItem | undefined)[] = []): Disposable {
  return bench.manager.watch({ kind: 'identity', identity }, item => items.push(item))
}

function story(bench: Bench, name: string): SecretEvent['kind'][] {
  return bench.events.filter(event => event.name === name).map(({ event }) => event.kind)
}

test('a removed identity is served for the grace period, then forgotten, its key wiped and its subscribers notified', async () => {
  await using bench = await Bench.create()
  const item = await bench.add(WEB)
  const items: (SecretItem | undefined)[] = []
  using _ = subscribe(bench, WEB, items)
  bench.manager.remove(WEB)
  await bench.clock.advance(5 * MINUTE - 1)
  assert.equal(bench.served(WEB), item)
  assert.deepEqual([bench.manager.entries()[0]?.hold, items], ['removed', []])
  await bench.clock.advance(1)
  assert.deepEqual([held(bench.manager), items], [[], [undefined]])
  assert.equal(item.privateKey.isWiped, true)
  assert.deepEqual(story(bench, WEB), ['csr-sent', 'issued', 'removed', 'withdrawn'])
})

test('a removed identity is renewed within its grace period', async () => {
  await using bench = await Bench.create({ ttlSeconds: 60 })
  await bench.add(WEB)
  bench.manager.remove(WEB)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
})

test('an identity that comes back within the grace period keeps its certificate and its renewal', async () => {
  await using bench = await Bench.create()
  const item = await bench.add(WEB)
  const [before] = bench.manager.entries()
  bench.manager.remove(WEB)
  bench.manager.remove(WEB)
  await bench.clock.advance(4 * MINUTE)
  bench.manager.add(WEB)
  await bench.clock.advance(10 * MINUTE)
  assert.equal(bench.served(WEB), item)
  assert.deepEqual(bench.manager.entries()[0], before)
  assert.equal(bench.ca.requests.length, 1)
  assert.deepEqual(story(bench, WEB), ['csr-sent', 'issued', 'removed', 'kept'])
})

test('being idle does not shorten the grace period, and only where no other can go a removed identity makes room', async () => {
  await using bench = await Bench.create({ maxIdentities: 2, idle: { afterMs: 1_000, action: 'drop' } })
  const item = await bench.add(WEB)
  bench.manager.remove(WEB)
  await bench.clock.advance(4 * MINUTE)
  assert.equal(bench.served(WEB), item)
  bench.request(workload(1))
  bench.request(workload(2))
  assert.deepEqual(held(bench.manager), [WEB, workload(2)])
  using _ = subscribe(bench, workload(2))
  bench.request(workload(3))
  assert.deepEqual(held(bench.manager), [workload(2), workload(3)])
})

test('removing wins over a request in flight, at the end of the grace period', async () => {
  await using bench = await Bench.create({ removalGraceMs: 1_000 })
  bench.ca.answer = () => new Promise(() => {})
  bench.manager.add(WEB)
  await bench.until('csr-sent', 1)
  bench.manager.remove(WEB)
  await bench.clock.advance(1_000)
  assert.equal(bench.ca.requests[0]?.signal.aborted, true)
  assert.deepEqual(held(bench.manager), [])
})

test('removing what is not pinned changes nothing', async () => {
  await using bench = await Bench.create()
  bench.request(WEB)
  bench.manager.remove(WEB)
  bench.manager.remove(API)
  await bench.clock.advance(10 * MINUTE)
  assert.deepEqual([held(bench.manager), bench.manager.entries()[0]?.hold], [[WEB], 'on-demand'])
})

test('another token file counts from the next request on, which is at once where the CA refused the last', async () => {
  await using bench = await Bench.create()
  bench.ca.answer = (request, sign) =>
    request.tokenFile === '/good' ? sign(request) : Promise.reject(new Error('refused'))
  bench.manager.add(WEB, { tokenFile: '/bad' })
  await bench.until('retry-planned', 1)
  bench.manager.add(WEB, { tokenFile: '/good' })
  await bench.until('issued', 1)
  bench.manager.add(WEB, { tokenFile: '/bad' })
  assert.equal(bench.ca.requests.length, 2)
})

test('an idle identity is renewed for ever by default', async () => {
  await using bench = await Bench.create({ verifier: believer() }, answerInstantly)
  bench.manager.add(WEB)
  await bench.clock.advance(72 * HOUR)
  assert.ok(bench.ca.requests.length >= 4)
  assert.ok(bench.served(WEB))
})

test('with drop, an idle identity is not renewed and its key wiped, and it is fetched when somebody subscribes', async () => {
  await using bench = await Bench.create({ idle: { action: 'drop' } })
  const item = await bench.add(WEB)
  await bench.clock.advance(HOUR - 1)
  assert.equal(bench.served(WEB), item)
  await bench.clock.advance(1)
  assert.equal(bench.served(WEB), undefined)
  assert.equal(item.privateKey.isWiped, true)
  assert.equal(bench.manager.entries()[0]?.state, 'idle')
  await bench.clock.advance(72 * HOUR)
  assert.equal(bench.ca.requests.length, 1)
  assert.equal(bench.manager.knows({ kind: 'identity', identity: WEB }), true)

  using _ = subscribe(bench, WEB)
  await bench.until('issued', 2)
  assert.equal(bench.manager.entries()[0]?.state, 'available')
  assert.equal(bench.last('csr-sent').reason, 'on-demand')
  assert.deepEqual(story(bench, WEB), ['csr-sent', 'issued', 'withdrawn', 'csr-sent', 'issued'])
})

test('with drop, a request in flight for an idle identity is aborted, and a planned one not made', async () => {
  await using bench = await Bench.create({ idle: { action: 'drop', afterMs: 1_000 } })
  bench.ca.answer = request => (request.identity === WEB ? Promise.reject(new Error('refused')) : new Promise(() => {}))
  bench.manager.add(WEB)
  bench.manager.add(API)
  await bench.until('retry-planned', 1)
  await bench.clock.advance(1_000)
  const asked = bench.ca.requests.length
  await bench.clock.advance(HOUR)
  assert.equal(bench.ca.requests.length, asked)
  assert.ok(bench.ca.requests.find(({ identity }) => identity === API)?.signal.aborted)
})

test('an identity with subscribers is never idle, and its idle time counts from when the last one left', async () => {
  await using bench = await Bench.create({ verifier: believer(), idle: { action: 'drop' } }, answerInstantly)
  bench.manager.add(WEB)
  const first = subscribe(bench, WEB)
  const second = subscribe(bench, WEB)
  await bench.clock.advance(3 * HOUR)
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  await bench.clock.advance(3 * HOUR)
  second[Symbol.dispose]()
  await bench.clock.advance(HOUR - 1)
  assert.ok(bench.served(WEB))
  await bench.clock.advance(1)
  assert.equal(bench.served(WEB), undefined)
})

test('an on-demand identity that nobody uses is forgotten after an hour, whatever the policy', async () => {
  await using bench = await Bench.create()
  bench.manager.add(API)
  bench.request(WEB)
  const subscription = subscribe(bench, WEB)
  await bench.until('issued', 2)
  await bench.clock.advance(2 * HOUR)
  assert.ok(bench.served(WEB))
  subscription[Symbol.dispose]()
  await bench.clock.advance(HOUR)
  assert.deepEqual(held(bench.manager), [API])
  assert.equal(bench.last('withdrawn').reason, 'idle')
})

test('an on-demand identity that is then configured stays, and one that left the configuration is removed', async () => {
  await using bench = await Bench.create()
  bench.request(WEB)
  await bench.until('issued', 1)
  bench.manager.add(WEB)
  await bench.clock.advance(3 * HOUR)
  assert.deepEqual(held(bench.manager), [WEB])
  assert.equal(bench.ca.requests.length, 1)
  bench.manager.remove(WEB)
  await bench.clock.advance(HOUR)
  assert.deepEqual(held(bench.manager), [])
})

test('the ceiling evicts the on-demand identity that was unused for longest, never a pinned one or one in use', async () => {
  await using bench = await Bench.create({ maxIdentities: 4 })
  bench.manager.add(workload(0))
  for (let index = 1; index <= 3; index++) {
    await bench.clock.advance(MINUTE)
    bench.request(workload(index))
  }
  using _ = subscribe(bench, workload(1))
  subscribe(bench, workload(2))[Symbol.dispose]()
  bench.request(workload(4))
  assert.deepEqual(held(bench.manager), [0, 1, 2, 4].map(workload))
  bench.request(workload(5))
  assert.deepEqual(held(bench.manager), [0, 1, 4, 5].map(workload))
  assert.deepEqual(story(bench, workload(3)).at(-1), 'withdrawn')
  assert.equal(bench.last('withdrawn').reason, 'evicted')
})

test('where all are pinned or in use, one more on demand is not taken on, and that is reported', async () => {
  await using bench = await Bench.create({ maxIdentities: 2 })
  bench.manager.add(WEB)
  bench.request(API)
  using _ = subscribe(bench, API)
  bench.request(workload(0))
  bench.request(workload(0))
  assert.equal(bench.manager.knows({ kind: 'identity', identity: workload(0) }), false)
  const noRoom = { name: workload(0), event: { kind: 'no-room', maxIdentities: 2 } }
  assert.deepEqual(bench.events.slice(-2), [noRoom, noRoom])
})

test('a rejected identity that still waits is admitted when there is room, the longest wait first', async () => {
  await using bench = await Bench.create({ maxIdentities: 1 })
  bench.request(workload(0))
  const inUse = subscribe(bench, workload(0))
  const items: (SecretItem | undefined)[] = []
  const left = subscribe(bench, workload(1))
  using _waits = subscribe(bench, workload(2), items)
  using _waitsToo = subscribe(bench, workload(3))
  for (const index of [1, 2, 3]) bench.manager.request(workload(index))
  left[Symbol.dispose]()
  assert.deepEqual(held(bench.manager), [workload(0)])
  inUse[Symbol.dispose]()
  assert.deepEqual(held(bench.manager), [workload(2)])
  await bench.until('issued', 1)
  assert.equal(items.length, 1)
  bench.manager.forget(workload(2))
  assert.deepEqual(held(bench.manager), [workload(3)])
})

test('pinned identities have room beyond the ceiling, and take the room of the others', async () => {
  await using bench = await Bench.create({ maxIdentities: 2 })
  bench.request(workload(0))
  const inUse = subscribe(bench, workload(0))
  for (const index of [1, 2, 3]) bench.manager.add(workload(index))
  assert.deepEqual(held(bench.manager), [0, 1, 2, 3].map(workload))
  inUse[Symbol.dispose]()
  assert.deepEqual(held(bench.manager), [1, 2, 3].map(workload))
})

test('a flood of names stays within the ceiling while no answer arrives: each evicted one has its request aborted', async () => {
  await using bench = await Bench.create({ maxIdentities: 100, concurrency: 32 })
  bench.ca.answer = async request => {
    await request.csr()
    return new Promise(() => {})
  }
  bench.manager.add(WEB)
  let most = 0
  for (let index = 0; index < 5_000; index++) {
    bench.request(workload(index))
    most = Math.max(most, held(bench.manager).length)
    if (index % 500 === 0) await new Promise(setImmediate)
  }
  assert.equal(most, 100)
  assert.ok(held(bench.manager).includes(WEB))
  await bench.clock.advance(0)
  const inFlight = bench.ca.requests.filter(({ signal }) => !signal.aborted)
  assert.ok(inFlight.length <= 32)
  for (const { identity } of inFlight) assert.ok(bench.manager.knows({ kind: 'identity', identity }))
  assert.ok(bench.clock.deadlines().length < 200)
})

test('a flood of names that are issued and streamed for a moment stays within the ceiling, and every key is wiped', async () => {
  const keys: Uint8Array[] = []
  await using bench = await Bench.create({ maxIdentities: 50, verifier: believer() }, ca => {
    ca.answer = async ({ identity }) => {
      const privateKey = Buffer.from(`key of ${identity}`)
      keys.push(privateKey)
      return { chain: [identity], roots: ca.roots, privateKey }
    }
  })
  for (let index = 0; index < 3_000; index++) {
    const identity = workload(index)
    bench.request(identity)
    using _ = subscribe(bench, identity)
    if (index % 3 === 0) {
      await bench.manager.get({ kind: 'identity', identity }, { signal: AbortSignal.timeout(30_000) })
    }
    assert.ok(held(bench.manager).length <= 50)
  }
  await new Promise(setImmediate)
  assert.ok(keys.filter(key => key.some(byte => byte !== 0)).length <= 50)
  assert.ok(bench.clock.deadlines().length <= 200)
})

/** One thing that can happen to one of a few identities. */
const action = fc.record({
  kind: fc.constantFrom('demand', 'pin', 'remove', 'subscribe', 'leave', 'forget', 'wait'),
  index: fc.nat(11),
})

test('whatever happens, pinned and used identities stay, the ceiling holds, and nobody waits while there is room', async () => {
  const maxIdentities = 4
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 80 }), async actions => {
      await using bench = await Bench.create(
        { maxIdentities, verifier: believer(), idle: { afterMs: 3 * MINUTE, action: 'drop' }, removalGraceMs: MINUTE },
        answerInstantly,
      )
      const { manager } = bench
      const pinned = new Set<SpiffeId>()
      const asked = new Set<SpiffeId>()
      const used = new Map<SpiffeId, Disposable>()
      for (const { kind, index } of actions) {
        const identity = workload(index)
        const before = new Set(held(manager))
        if (kind === 'demand') bench.request(identity)
        if (kind === 'pin') manager.add(identity)
        if (kind === 'remove') manager.remove(identity)
        if (kind === 'forget') manager.forget(identity)
        if (kind === 'subscribe' && !used.has(identity)) used.set(identity, subscribe(bench, identity))
        if (kind === 'leave') used.get(identity)?.[Symbol.dispose]()
        if (kind === 'wait') await bench.clock.advance(index * 20_000)

        if (kind === 'demand' && used.has(identity)) asked.add(identity)
        if (kind === 'pin') pinned.add(identity)
        if (kind === 'remove' || kind === 'forget') pinned.delete(identity)
        if (kind === 'forget' || kind === 'leave') asked.delete(identity)
        if (kind === 'leave') used.delete(identity)
        const entries = manager.entries()
        const now = new Set(held(manager))
        for (const id of pinned) assert.ok(now.has(id), 'a pinned one went')
        const evictable = entries.filter(entry => entry.hold !== 'pinned' && !used.has(entry.identity))
        if (now.size > maxIdentities) assert.deepEqual(evictable, [], 'one more than there is room for')
        for (const id of before) {
          if (now.has(id) || id === identity || !used.has(id)) continue
          assert.equal(kind, 'wait', 'one in use went without the end of a grace period')
          asked.delete(id)
        }
        for (const id of asked) {
          if (now.has(id)) continue
          assert.ok(now.size >= maxIdentities && evictable.length === 0, 'one waits though there is room')
        }
      }
    }),
    { numRuns: process.env['LIVERY_SLOW'] ? 1_000 : 100 },
  )
})
