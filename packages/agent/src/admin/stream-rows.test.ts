/** The streams that the page shows, of the server's list: those in trouble come first, and the rest is counted. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SecretManager } from '@livery/core'
import { SystemClock } from '@livery/core/plugin'
import { TestCA, TestKeyGenerator } from '@livery/core/testing'
import type { ListedStream, SubscribedName } from '@livery/sds-server'
import { adminSource } from '../../test/admin-source.ts'
import { LoopTurns } from '../observe/loop-turns.ts'
import { composeStreams } from './stream-rows.ts'

const SOCKET = '/run/livery/sds.sock'
const ACCEPTED: SubscribedName = {
  name: 'default',
  secret: 'spiffe://cluster.local/web',
  access: 'granted',
  reason: undefined,
  current: 'v2',
  sent: 'v2',
  accepted: 'v2',
  rejected: undefined,
}

function stream(id: number, ...names: readonly SubscribedName[]): ListedStream {
  const connection = { id, socket: SOCKET, caller: { pid: 7, uid: 1001, gid: 1001 }, subject: 'pod 12-34' }
  return {
    info: () => ({ id, method: 'StreamSecrets', connection, node: 'node', names: names.length, openedAt: 5 }),
    subscribed: () => names,
  }
}

async function compose(streams: readonly ListedStream[]) {
  using clock = new SystemClock()
  const keyGenerator = new TestKeyGenerator()
  const ca = await TestCA.create(clock)
  await using secrets = new SecretManager({ ca, clock, keyGenerator, trustDomain: 'cluster.local' })
  const source = {
    ...adminSource({ secrets, clock, keyGenerator }),
    podOf: (subject: string) => (subject === 'pod 12-34' ? 'shop/web-0' : undefined),
    sds: () => ({
      sockets: () => [],
      callers: () => [],
      *streams() {
        yield* streams
      },
    }),
  }
  return await composeStreams(source, new LoopTurns())
}

test('a stream that rejected a secret comes first, then those that are behind, then those that were refused', async () => {
  const { total, shown } = await compose([
    stream(1, ACCEPTED),
    stream(2, { ...ACCEPTED, access: 'refused', reason: 'not allowed', current: undefined, sent: undefined }),
    stream(3, { ...ACCEPTED, sent: 'v1', accepted: 'v1' }),
    stream(4, ACCEPTED, { ...ACCEPTED, accepted: 'v1', rejected: 'v2' }),
    stream(5, { ...ACCEPTED, sent: undefined, accepted: undefined }),
    // It came with the version that it has.
    stream(6, { ...ACCEPTED, accepted: undefined }),
    stream(7, { ...ACCEPTED, accepted: 'v1' }),
  ])
  assert.equal(total, 7)
  assert.deepEqual(
    shown.map(({ id, rejected, pending, refused }) => [id, rejected.length, pending, refused]),
    [
      [4, 1, 0, 0],
      [3, 0, 1, 0],
      [5, 0, 1, 0],
      [7, 0, 1, 0],
      [2, 0, 0, 1],
      [1, 0, 0, 0],
      [6, 0, 0, 0],
    ],
  )
  assert.deepEqual(shown[0], {
    id: 4,
    method: 'StreamSecrets',
    socket: SOCKET,
    pid: 7,
    uid: 1001,
    subject: 'pod 12-34',
    pod: 'shop/web-0',
    node: 'node',
    since: 5,
    names: 2,
    refused: 0,
    pending: 0,
    rejected: ['spiffe://cluster.local/web'],
  })
})

test('of thousands of streams and names 500 streams, a hundred names of each and three rejected names are shown', async () => {
  const rejected = { ...ACCEPTED, accepted: 'v1', rejected: 'v2' }
  const many = stream(9_999, ...Array<SubscribedName>(200).fill(rejected))
  const behind = stream(10_000, ...Array<SubscribedName>(200).fill({ ...ACCEPTED, sent: 'v1' }))
  const { total, shown } = await compose([
    ...Array.from({ length: 3_000 }, (_, id) => stream(id, ACCEPTED)),
    behind,
    many,
  ])
  assert.deepEqual([total, shown.length], [3_002, 500])
  assert.deepEqual([shown[0]?.id, shown[0]?.rejected.length], [9_999, 3])
  assert.deepEqual([shown[1]?.id, shown[1]?.pending], [10_000, 100])
})
