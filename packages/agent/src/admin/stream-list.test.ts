import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ListedStream, SubscribedName } from '@livery/sds-server'
import { describeStreams } from '../commands/streams.ts'
import type { StreamSource } from './admin-source.ts'
import { type StreamList, streamPieces } from './stream-list.ts'

const SOCKET = '/run/livery/sds.sock'
const GRANTED = {
  access: 'granted',
  reason: undefined,
  current: 'v1',
  sent: 'v1',
  accepted: 'v1',
  rejected: undefined,
} as const

const LOAD = { connections: 1, streams: 1, names: 1, bytes: 2_048 }

function streamWith(id: number, names: number): ListedStream {
  const connection = { id, socket: SOCKET, caller: { pid: 7, uid: 1001, gid: 1001 } }
  const subscribed: readonly SubscribedName[] = Array.from({ length: names }, (_, index) => ({
    ...GRANTED,
    name: `name-${index}`,
    secret: `name-${index}`,
  }))
  return {
    info: () => ({ id, method: 'StreamSecrets', connection, node: 'node', names, openedAt: 0 }),
    subscribed: only => subscribed.filter(({ name }) => only === undefined || name === only),
  }
}

function sourceOf(streams: readonly ListedStream[]): StreamSource {
  return {
    *streams() {
      yield* streams
    },
    sockets: () => [{ path: SOCKET, state: 'listening', connections: streams.length, streams: streams.length }],
    callers: () => [{ key: 'uid 1001', connections: streams.length, streams: streams.length, names: 0, bytes: 2_048 }],
  }
}

function listOf(pieces: Iterable<string>): StreamList {
  return JSON.parse([...pieces].join(''))
}

test('an answer lists 20,000 streams in pieces of one, and counts the rest and their names', () => {
  const streams = Array.from({ length: 20_003 }, (_, index) => streamWith(index + 1, 2))
  const pieces = [...streamPieces(sourceOf(streams), 0)]
  assert.ok(pieces.every(piece => piece.length < 1_000))
  const { streams: listed, notListed, sockets, callers } = listOf(pieces)
  assert.deepEqual([listed.length, notListed, sockets[0]?.names], [20_000, 3, 40_006])
  assert.deepEqual(callers, [{ caller: 'uid 1001', connections: 20_003, streams: 20_003, names: 0, bytes: 2_048 }])
})

test('a caller that is a pod has its name, as long as the pod is known', () => {
  const stream = streamWith(1, 1)
  const info = stream.info()
  const ofPod = { ...stream, info: () => ({ ...info, connection: { ...info.connection, subject: 'pod 12-34' } }) }
  const source = { ...sourceOf([ofPod]), callers: () => [{ key: 'pod 12-34', ...LOAD }] }
  const podOf = (subject: string) => (subject === 'pod 12-34' ? 'shop/web-1' : undefined)
  const list = listOf(streamPieces(source, 0, undefined, podOf))
  assert.deepEqual([list.streams[0]?.subject, list.streams[0]?.pod], ['pod 12-34', 'shop/web-1'])
  assert.deepEqual(list.callers, [{ caller: 'pod 12-34', pod: 'shop/web-1', ...LOAD }])
  const text = describeStreams(list)
  assert.match(text, /pid 7, uid 1001, pod 12-34 \(shop\/web-1\): StreamSecrets/)
  assert.match(text, /^ {2}pod 12-34 \(shop\/web-1\): 1 connection,/m)
  const gone = listOf(streamPieces(source, 0))
  assert.deepEqual([gone.streams[0]?.pod, gone.callers[0]?.pod], [undefined, undefined])
})

test('of a stream with many names 100 are listed, and all are found', () => {
  const source = sourceOf([streamWith(1, 5_000), streamWith(2, 1)])
  const [stream] = listOf(streamPieces(source, 0)).streams
  assert.deepEqual([stream?.names, stream?.subscriptions.length], [5_000, 100])
  const found = listOf(streamPieces(source, 0, 'name-4999'))
  assert.deepEqual(
    found.streams.map(({ id, subscriptions }) => [id, subscriptions.map(({ name }) => name)]),
    [[1, ['name-4999']]],
  )
  assert.equal(found.sockets[0]?.names, 5_001)
})

test('without streams the lists are there', () => {
  const none = listOf(streamPieces({ *streams() {}, sockets: () => [], callers: () => [] }, 1_000))
  const now = '1970-01-01T00:00:01.000Z'
  assert.deepEqual(none, { now, streams: [], notListed: 0, sockets: [], callers: [] })
})
