/** Budgets of callers: what one gets, what it leaves to the others, and that nothing is lost on the way. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { SpiffeId } from '@livery/core/plugin'
import { MemorySource } from '../../test/memory-source.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'
import { testAccounts, testBudget } from '../../test/test-budget.ts'
import { CallerAccount, CallerAccounts } from './caller-account.ts'
import type { CallerBudget } from './caller-budget.ts'

const RESOURCE_EXHAUSTED = 8

/** Connections that come from now on are of `uid`. */
function callers() {
  const caller = { pid: 1, uid: 1, gid: 1 }
  return { caller, readPeerCredentials: () => ({ ...caller }) }
}

test('ten callers that take all the streams they can, one after the other, leave streams for an eleventh', async () => {
  const { caller, readPeerCredentials } = callers()
  await using running = await startServer({ limits: { streams: 1_024 } }, { readPeerCredentials })
  const held: number[] = []
  using stack = new DisposableStack()
  for (; caller.uid <= 10; caller.uid++) {
    const peer = stack.use(new RawPeer(running.path))
    const before = running.server.sockets()[0]?.streams ?? 0
    for (let index = 0; index < (1_024 - before) / 2 + 8; index++) peer.open()
    const refused = 8 * caller.uid
    while (running.events.filter(({ kind }) => kind === 'stream-refused').length < refused) await nextTurn()
    held.push((running.server.sockets()[0]?.streams ?? 0) - before)
  }
  assert.deepEqual(held, [512, 256, 128, 64, 32, 16, 8, 4, 2, 1])
  const client = running.connect().sotw()
  client.ask(WEB)
  assert.deepEqual(namesOf(await client.next()), [WEB])
})

test('a caller that holds all the connections it can leaves room for another, and its sockets do not multiply them', async () => {
  const { caller, readPeerCredentials } = callers()
  const limits = { connections: 100, perCaller: { connections: 40 } }
  await using running = await startServer({ limits }, { readPeerCredentials })
  const second = `${running.path}.2`
  await running.server.listen({ path: second, allow: [WEB], limits })
  using stack = new DisposableStack()
  for (let index = 0; index < 50; index++) stack.use(new RawPeer(index % 2 ? running.path : second))
  await running.event('connection-refused', ({ reason }) => reason === 'too-many-of-caller')
  for (let refused = 0; refused < 10; ) {
    await new Promise(setImmediate)
    refused = running.events.filter(({ kind }) => kind === 'connection-refused').length
  }
  const open = running.server.sockets().reduce((sum, { connections }) => sum + connections, 0)
  assert.equal(open, 40)
  caller.uid = 2
  const client = running.connect().sotw()
  client.ask(WEB)
  assert.deepEqual(namesOf(await client.next()), [WEB])
})

test('on all sockets together a caller gets half of what the process has, and another one has room', () => {
  const accounts = new CallerAccounts({ connections: 10, streams: 10, bytes: 2 ** 30 })
  const account = new CallerAccount('uid 1')
  const sockets = [testBudget({}, accounts, account), testBudget({}, accounts, account)]
  const other = testBudget({}, accounts, new CallerAccount('uid 2'))
  for (const open of [(each: CallerBudget) => each.openConnection(), (each: CallerBudget) => each.openCall('stream')]) {
    const bounds = [1, 2, 3, 4].flatMap(() => sockets.map(open))
    assert.deepEqual(bounds, [...Array(5).fill(undefined), ...Array(3).fill('process')])
    assert.equal(open(other), undefined)
  }
})

test('names over the budget of their caller end their stream, on any socket, and are free again when it ends', async () => {
  const limits = { perCaller: { names: 10 } }
  await using running = await startServer({ limits })
  const names = Array.from({ length: 8 }, (_, index) => `nobody-has-${index}`)
  const first = running.connect().sotw()
  first.ask(...names)
  await first.next()
  const another = running.connect().sotw()
  another.ask(...names)
  const { code, details } = await another.status
  assert.equal(code, RESOURCE_EXHAUSTED)
  assert.match(details, /limits\.perCaller\.names/)
  first.cancel()
  await running.event('stream-closed', ({ stream }) => stream.id === 2)
  const third = running.connect().sotw()
  third.ask(...names)
  await third.next()
})

test('of refused names the first thousand are reported by name, and all are counted', async () => {
  await using running = await startServer({ limits: { names: 1_000 } })
  const client = running.connect()
  for (let of = 0; of < 3; of++) {
    const stream = client.sotw()
    stream.ask(...Array.from({ length: 900 }, (_, index) => `nobody-has-${of}-${index}`))
    await stream.next()
  }
  assert.equal(running.reports.size, 1_000)
  const reports = running.events.flatMap(event => (event.kind === 'stream-report' ? [event.report.kind] : []))
  const count = (wanted: string) => reports.filter(kind => kind === wanted).length
  assert.deepEqual([count('refused'), count('refused-unnamed')], [1_000, 1_700])
})

test('what was charged is given back when all is over', () => {
  const accounts = testAccounts()
  const account = new CallerAccount('uid 1')
  const budget = testBudget({}, accounts, account)
  assert.equal(budget.openConnection(), undefined)
  assert.equal(budget.openCall('stream'), undefined)
  budget.addName(3_000)
  assert.ok(account.bytes > 40_000)
  budget.removeName(3_000)
  budget.closeCall('stream')
  budget.closeConnection()
  const { bytes, names, streams, connections } = account
  assert.deepEqual([bytes, names, streams, connections], [0, 0, 0, 0])
  assert.deepEqual([accounts.bytes.used, accounts.streams.used, accounts.connections.used], [0, 0, 0])
})

test('identities on demand come at the rate of their caller, without being asked for again', async () => {
  const source = await MemorySource.create(WEB)
  const added: SpiffeId[] = []
  const add = source.add.bind(source)
  source.add = identity => {
    added.push(identity)
    add(identity)
  }
  const limits = { perCaller: { identitiesPerMinute: 60 } }
  await using running = await startServer({ onDemand: true, limits }, { source })
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(...Array.from({ length: 100 }, (_, index) => `spiffe://cluster.local/ns/default/sa/new-${index}`))
  await client.settled()
  assert.equal(added.length, 60)
  await source.clock.advance(10_000)
  assert.ok(added.length >= 68 && added.length <= 71, `${added.length} after 10 s`)
})

test('an identity that waits for its turn is not answered as removed, in either form: its peer may have a certificate', async () => {
  const limits = { perCaller: { identitiesPerMinute: 1 } }
  const source = await MemorySource.create(WEB)
  await using running = await startServer({ onDemand: true, limits }, { source, refusedNames: 'invalidate' })
  const client = running.connect()
  const [first, second, third] = ['a', 'b', 'c'].map(name => `spiffe://cluster.local/ns/default/sa/${name}` as const)
  assert.ok(first && second && third)
  const [delta, sotw] = [client.delta(), client.sotw()]
  delta.send({ resourceNamesSubscribe: [first, second], initialResourceVersions: { [second]: 'held' } })
  await client.settled()
  sotw.ask(third)
  await client.settled()
  assert.deepEqual([delta.queued, sotw.queued], [0, 0])
  assert.deepEqual(
    running.streams().flatMap(({ subscribed }) => subscribed.map(({ access }) => access)),
    ['granted', 'postponed', 'postponed'],
  )
  await source.clock.advance(120_000)
  for (const identity of [second, third]) await source.issue(identity)
  assert.deepEqual(namesOf(await delta.next()), [second])
  assert.deepEqual(namesOf(await sotw.next()), [third])
})

test('one caller has its share of the identities on demand, and gets others when those are held no more', async () => {
  const source = await MemorySource.create(WEB)
  await using running = await startServer({ onDemand: true, limits: { perCaller: { identities: 2 } } }, { source })
  const client = running.connect()
  const name = (index: number): SpiffeId => `spiffe://cluster.local/ns/default/sa/new-${index}`
  const stream = client.sotw()
  stream.ask(name(0), name(1), name(2))
  await client.settled()
  const known = () => [0, 1, 2].filter(index => source.knows({ kind: 'identity', identity: name(index) }))
  assert.deepEqual(known(), [0, 1])
  stream.cancel()
  await running.event('stream-closed')
  source.forget(name(0))
  const later = client.sotw()
  later.ask(name(2))
  await client.settled()
  assert.deepEqual(known(), [1, 2])
})
