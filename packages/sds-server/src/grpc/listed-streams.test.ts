/** Open streams and their callers, as a reader of the server has them, over real sockets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { API, NEVER_ISSUED, OTHER, type RunningServer, startServer, WEB } from '../../test/running-server.ts'

/** The names of the first stream, without the reasons. */
function namesOf(running: RunningServer): Readonly<Record<string, object>> {
  const [stream] = running.streams()
  return Object.fromEntries((stream?.subscribed ?? []).map(({ name, reason: _, ...state }) => [name, state]))
}

const NOTHING = { current: undefined, sent: undefined, accepted: undefined, rejected: undefined }

test('state of the world: each name has its newest version and the versions that the peer was sent, accepted and rejected', async () => {
  await using running = await startServer()
  running.source.add(NEVER_ISSUED)
  const client = running.connect()
  const stream = client.sotw()
  const names = [WEB, NEVER_ISSUED, OTHER]
  stream.ask(...names)
  const first = await stream.next()
  const v1 = first.versionInfo
  const sent = { secret: WEB, access: 'granted', current: v1, sent: v1, accepted: undefined, rejected: undefined }
  const others = {
    [NEVER_ISSUED]: { secret: NEVER_ISSUED, access: 'granted', ...NOTHING },
    [OTHER]: { secret: undefined, access: 'refused', ...NOTHING },
  }
  assert.deepEqual(namesOf(running), { [WEB]: sent, ...others })
  assert.match(running.streams()[0]?.subscribed.find(({ name }) => name === OTHER)?.reason ?? '', /allow/)

  stream.ack(first, ...names)
  await client.settled()
  assert.deepEqual(namesOf(running)[WEB], { ...sent, accepted: v1 })

  const { version: v2 } = await running.source.issue(WEB)
  const second = await stream.next()
  stream.nack(second, 'no such curve', ...names)
  await client.settled()
  const rejected = { secret: WEB, access: 'granted', current: v2, sent: v2, accepted: v1, rejected: v2 }
  assert.deepEqual(namesOf(running)[WEB], rejected)

  // Asked for again, it is sent again; a peer that accepts it now has it.
  stream.send({ resourceNames: [WEB], responseNonce: '' })
  stream.ack(await stream.next(), WEB)
  await client.settled()
  assert.deepEqual(namesOf(running), { [WEB]: { ...rejected, accepted: v2, rejected: undefined } })
})

test('Delta: a version that the peer has from an earlier stream counts as sent, and its text is escaped', async () => {
  await using running = await startServer()
  running.source.add(NEVER_ISSUED)
  const client = running.connect()
  const stream = client.delta()
  const hostile = 'v\u001b[2J'
  stream.send({ resourceNamesSubscribe: [WEB, NEVER_ISSUED], initialResourceVersions: { [NEVER_ISSUED]: hostile } })
  stream.ack(await stream.next())
  await client.settled()
  const version = running.source.current({ kind: 'identity', identity: WEB })?.version
  assert.deepEqual(namesOf(running), {
    [WEB]: { secret: WEB, access: 'granted', current: version, sent: version, accepted: version, rejected: undefined },
    [NEVER_ISSUED]: { secret: NEVER_ISSUED, access: 'granted', ...NOTHING, sent: 'v\\u{1b}[2J' },
  })
})

test('what each caller holds is listed until its last connection closes', async () => {
  await using running = await startServer({}, { readPeerCredentials: () => ({ pid: 7, uid: 1001, gid: 1001 }) })
  const client = running.connect()
  const streams = [client.sotw(), client.sotw()]
  for (const stream of streams) {
    stream.ask(WEB, API)
    await stream.next()
  }
  const [caller, ...others] = running.server.callers()
  assert.deepEqual(others, [])
  assert.deepEqual([caller?.key, caller?.connections, caller?.streams, caller?.names], ['uid 1001', 1, 2, 4])
  for (const stream of streams) stream.cancel()
  client[Symbol.dispose]()
  await running.event('connection-closed')
  assert.deepEqual([...running.server.callers()], [])
})

test('a name is found under the name that it was asked for by, and under what that means', async () => {
  await using running = await startServer({ identity: WEB })
  const stream = running.connect().sotw()
  stream.ask('default', 'ROOTCA')
  await stream.next()
  const found = (only: string) =>
    [...running.server.streams()].flatMap(each => [...each.subscribed(only)]).map(({ name }) => name)
  assert.deepEqual(found('default'), ['default'])
  assert.deepEqual(found(WEB), ['default'])
  assert.deepEqual(found('spiffe://cluster.local'), ['ROOTCA'])
  assert.deepEqual(found(API), [])
})
