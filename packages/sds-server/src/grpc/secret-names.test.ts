/** Names of Kubernetes Secrets on streams: the few that a process can watch are shared, and who finds no room waits. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { SecretObjects } from '@livery/core/file-secrets'
import { FakeClock } from '@livery/core/testing'
import { startFileServer } from '../../test/file-server.ts'

const ALL = 16

async function start(t: TestContext) {
  let open = 0
  let most = 0
  const objects: SecretObjects = {
    get room() {
      return ALL - open
    },
    refusal: () => undefined,
    follow() {
      most = Math.max(most, ++open)
      return { read: async () => undefined, [Symbol.dispose]: () => void open-- }
    },
  }
  const caller = { pid: 1, uid: 1, gid: 1 }
  const readPeerCredentials = () => ({ ...caller })
  const clock = new FakeClock()
  const running = await startFileServer(
    t,
    { objects, clock },
    { allow: ['kubernetes://edge/*'] },
    { readPeerCredentials },
  )
  const ask = async (uid: number, names: readonly string[]) => {
    caller.uid = uid
    const client = running.server.connect()
    const stream = client.sotw()
    stream.ask(...names)
    await client.settled()
    return stream
  }
  const pass = async (ms: number) => {
    await clock.advance(ms)
    await running.server.source.clock.advance(ms)
    await running.server.source.clock.advance(0)
  }
  /** Ends the stream, and waits until its names are let go of. */
  const end = async (stream: Awaited<ReturnType<typeof ask>>) => {
    const count = running.server.streams().length
    stream.cancel()
    while (running.server.streams().length === count) await new Promise(setImmediate)
    await pass(60_000)
  }
  return { ...running, ask, end, open: () => open, most: () => most }
}

const pairs = (uid: number, count: number) =>
  Array.from({ length: count }, (_, index) => `kubernetes://edge/s-${uid}-${index}`)

test('a caller that names as many Secrets as it can leaves room for another', async t => {
  const { ask, open, server } = await start(t)
  await ask(1, pairs(1, 100))
  assert.equal(open(), ALL / 2)
  await ask(2, ['kubernetes://edge/other', 'kubernetes://edge/roots-cacert'])
  assert.equal(open(), ALL / 2 + 3)
  assert.match(
    JSON.stringify(server.reports.get('kubernetes://edge/s-1-99')),
    /this caller has its share of the Secrets that this agent can watch/,
  )
})

test('names that callers had before do not count as room that they have', async t => {
  const { ask, end, most, open } = await start(t)
  for (const uid of [1, 2, 3]) {
    const stream = await ask(uid, pairs(uid, ALL / 2))
    await end(stream)
    assert.equal(open(), 0)
  }
  for (const uid of [1, 2, 3]) await ask(uid, pairs(uid, ALL / 2))
  assert.ok(most() <= ALL, `${most()} are watched`)
})

test('a Secret that found no room is watched on the same stream when there is some', async t => {
  const { ask, end, files } = await start(t)
  const first = await ask(1, pairs(1, ALL / 2))
  await ask(1, ['kubernetes://edge/late'])
  assert.ok(!files.holds('kubernetes://edge/late'))
  await end(first)
  assert.ok(files.holds('kubernetes://edge/late'))
})
