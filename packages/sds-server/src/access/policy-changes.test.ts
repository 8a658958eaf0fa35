/** Rules of an open socket that change: who is let in, who is cut off, who gets more, and who notices nothing. */
import assert from 'node:assert/strict'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { PeerCredentials } from '@livery/core'
import { MemorySource } from '../../test/memory-source.ts'
import { API, OTHER, type RunningServer, startServer, WEB } from '../../test/running-server.ts'
import { namesOf, type SdsClient } from '../../test/sds-client.ts'
import type { SocketAccess } from './policy.ts'

const UNAVAILABLE = 14
const DEFAULT_NAMESPACE = 'spiffe://cluster.local/ns/default/sa/*'
const OTHER_NAMESPACE = 'spiffe://cluster.local/ns/other/sa/*'

function change(running: RunningServer, access: SocketAccess): void {
  running.server.prepareAccess([{ path: running.path, ...access }])()
}

async function sotwWith(client: SdsClient, ...names: string[]) {
  const stream = client.sotw()
  stream.ask(...names)
  stream.ack(await stream.next(), ...names)
  await client.settled()
  return stream
}

test('a refused name is pushed when it is allowed, or when it is issued; other streams see nothing', async () => {
  const late = 'spiffe://cluster.local/ns/other/sa/late'
  const source = await MemorySource.create(WEB, API, OTHER)
  source.add(late)
  await using running = await startServer({}, { source })
  const client = running.connect()
  const alone = await sotwWith(client, OTHER)
  const among = await sotwWith(client, WEB, OTHER, late)
  const content = await sotwWith(client, API)
  const delta = client.delta()
  delta.subscribe(OTHER)
  assert.deepEqual((await delta.next()).removedResources, [OTHER])

  change(running, { allow: [DEFAULT_NAMESPACE, OTHER_NAMESPACE] })
  assert.deepEqual(namesOf(await alone.next()), [OTHER])
  assert.deepEqual(namesOf(await among.next()), [OTHER])
  assert.deepEqual(namesOf(await delta.next()), [OTHER])
  await source.issue(late)
  assert.deepEqual(namesOf(await among.next()), [late])
  content.ask(API, late)
  assert.deepEqual(namesOf(await content.next()), [API, late])
  assert.equal(running.events.filter(({ kind }) => kind === 'connection-opened').length, 1)
  await client.settled()
  assert.deepEqual(
    [alone, among, content, delta].map(({ queued }) => queued),
    [0, 0, 0, 0],
  )
})

test('a name that nobody had added is issued once the socket does so on demand', async () => {
  const source = await MemorySource.create(WEB)
  await using running = await startServer({}, { source })
  const stream = await sotwWith(running.connect(), WEB, API)
  change(running, { allow: [DEFAULT_NAMESPACE], onDemand: true })
  assert.ok(source.knows({ kind: 'identity', identity: API }))
  await source.issue(API)
  assert.deepEqual(namesOf(await stream.next()), [API])
})

for (const [what, allow, isCut] of [
  ['is not pushed again', [DEFAULT_NAMESPACE, OTHER_NAMESPACE], false],
  ['is cut off where it is no longer allowed', [WEB], true],
] as const) {
  test(`what was unknown when it was asked for, and pushed since, ${what}`, async () => {
    const source = await MemorySource.create(WEB)
    await using running = await startServer({}, { source })
    const client = running.connect()
    const stream = await sotwWith(client, API)
    await source.issue(API)
    stream.ack(await stream.next(), API)
    change(running, { allow })
    await client.settled().catch(() => {})
    assert.equal(stream.queued, 0)
    if (isCut) assert.equal((await stream.status).code, UNAVAILABLE)
    assert.equal(running.streams().length, isCut ? 0 : 1)
  })
}

test('a caller with a name that it is no longer allowed is cut off at once, and others notice nothing', async () => {
  const renewed = (await MemorySource.create(WEB)).current({ kind: 'identity', identity: WEB })
  await using running = await startServer()
  const [narrowed, content] = [running.connect(), running.connect()]
  const lost = await sotwWith(narrowed, WEB, 'ROOTCA')
  const beside = await sotwWith(narrowed, API)
  const kept = await sotwWith(content, API, 'ROOTCA')

  change(running, { allow: [API] })
  // The connection is still closing in the same turn.
  running.source.set(WEB, renewed)
  assert.equal((await lost.status).code, UNAVAILABLE)
  assert.equal((await beside.status).code, UNAVAILABLE)
  assert.deepEqual([lost.queued, beside.queued], [0, 0])
  const again = narrowed.sotw()
  again.ask(WEB, 'ROOTCA')
  assert.deepEqual(namesOf(await again.next()), ['ROOTCA'])

  await content.settled()
  assert.equal(kept.queued, 0)
  await running.source.issue(API)
  assert.deepEqual(namesOf(await kept.next()), [API])
})

test('default continues while its identity is allowed, and means another one afterwards', async () => {
  await using running = await startServer({ allow: [WEB] })
  const client = running.connect()
  const stream = await sotwWith(client, 'default')
  change(running, { allow: [WEB, API] })
  await running.source.issue(WEB)
  assert.deepEqual(namesOf(await stream.next()), ['default'])
  change(running, { allow: [API] })
  assert.equal((await stream.status).code, UNAVAILABLE)
  const { version } = await running.source.issue(API)
  const again = client.sotw()
  again.ask('default')
  assert.equal((await again.next()).versionInfo, version)
})

test('a stream of all names is cut off when its caller is allowed fewer', async () => {
  await using running = await startServer()
  const stream = await sotwWith(running.connect())
  change(running, { allow: [API] })
  assert.equal((await stream.status).code, UNAVAILABLE)
})

test('a fetch that waits gets what its caller is allowed when it is answered', async () => {
  const source = await MemorySource.create(API)
  source.add(WEB)
  await using running = await startServer({}, { source })
  const client = running.connect()
  const fetched = client.fetch({ resourceNames: [API, WEB] })
  await running.event('stream-opened')
  change(running, { allow: [API] })
  await source.issue(WEB)
  assert.deepEqual(namesOf(await fetched), [API])
})

/** Callers get the uids 1, 2, 3 in the order in which they connect. */
function countingCallers(): () => PeerCredentials {
  let uid = 0
  return () => ({ uid: ++uid, gid: 0, pid: 1 })
}

test('a caller that is not let in any more is cut off, its next connection is refused, and others notice nothing', async () => {
  const callers = [{ uid: 1 }, { uid: 2 }, { uid: 4, allow: [WEB] }]
  await using running = await startServer({ callers }, { readPeerCredentials: countingCallers() })
  const [first, second] = [running.connect(), running.connect()]
  const stays = await sotwWith(first, WEB, 'ROOTCA')
  const goes = await sotwWith(second, 'ROOTCA')
  change(running, { allow: [DEFAULT_NAMESPACE], callers: [{ uid: 1 }, { uid: 4, allow: [API] }] })
  assert.equal((await goes.status).code, UNAVAILABLE)
  await assert.rejects(second.fetch({ resourceNames: ['ROOTCA'] }), { code: UNAVAILABLE })
  const { connection } = await running.event('connection-refused')
  assert.equal(connection.caller?.uid, 3)

  await first.settled()
  assert.equal(stays.queued, 0)
  const fourth = running.connect()
  assert.deepEqual(namesOf(await fourth.fetch({ resourceNames: [WEB, API] })), [API])
  assert.equal(running.events.filter(({ kind }) => kind === 'connection-closed').length, 1)
})

test('where rules for callers begin, a caller that none of them admits is cut off', async () => {
  const failing = () => {
    throw new Error('no credentials')
  }
  await using running = await startServer({}, { readPeerCredentials: failing })
  const stream = await sotwWith(running.connect(), WEB)
  change(running, { allow: [DEFAULT_NAMESPACE], callers: [{ uid: 0 }] })
  assert.equal((await stream.status).code, UNAVAILABLE)
})

for (const [what, access, message] of [
  ['callers without a way to read their credentials', { callers: [{ uid: 1 }] }, /native addon/],
  ['an invalid pattern', { allow: ['*'] }, /Cannot use "\*" in allow/],
  ['a path where no socket is', { path: '/nowhere.sock' }, /\/nowhere\.sock: this server has no socket/],
] as const) {
  test(`${what}: nothing is put in force, of other sockets neither`, async () => {
    await using running = await startServer()
    const other = join(dirname(running.path), 'other.sock')
    await running.server.listen({ path: other })
    const stream = await sotwWith(running.connect(), WEB)
    const good = { path: running.path, allow: [API] }
    assert.throws(() => running.server.prepareAccess([good, { path: other, ...access }]), {
      code: 'invalid-config',
      message,
    })
    await running.source.issue(WEB)
    assert.deepEqual(namesOf(await stream.next()), [WEB])
  })
}
