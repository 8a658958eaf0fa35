/** Which calls count against the limits of a socket, over real sockets: all of them, from their headers to their end. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2'
import { connect } from 'node:net'
import { test } from 'node:test'
import { RawPeer } from '../../test/raw-peer.ts'
import { type RunningServer, startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

const SERVING = 1
const INVALID_ARGUMENT = 3
const RESOURCE_EXHAUSTED = 8
const FETCH = '/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets'
const STREAM = '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets'
const WATCH = '/grpc.health.v1.Health/Watch'

function open({ session }: RawPeer, path: string): ClientHttp2Stream {
  const call = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' })
  return call.on('error', () => {}).resume()
}

async function statusOf(call: ClientHttp2Stream): Promise<number> {
  const [headers] = await once(call, 'response')
  return Number((headers as IncomingHttpHeaders)['grpc-status'])
}

/** Looks again after each round trip, a good many times. */
async function countBecomes(running: RunningServer, expected: number): Promise<void> {
  using peer = new RawPeer(running.path)
  const count = () => running.server.sockets()[0]?.streams
  for (let tries = 0; count() !== expected && tries < 200; tries++) await peer.pinged()
  assert.equal(count(), expected)
}

test('a call of FetchSecrets counts before its message comes, and no more when its peer resets it or leaves', async () => {
  await using running = await startServer({ limits: { streams: 5 } })
  using peer = new RawPeer(running.path)
  using leaving = new RawPeer(running.path)
  const silent = open(peer, FETCH)
  open(leaving, FETCH)
  open(leaving, STREAM)
  await countBecomes(running, 3)
  const client = running.connect()
  await assert.rejects(client.fetch({ resourceNames: [WEB] }), { code: RESOURCE_EXHAUSTED })
  const refused = await running.event('stream-refused')
  assert.equal(refused.method, 'FetchSecrets')

  silent.close()
  await countBecomes(running, 2)
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: [WEB] })), [WEB])
  await countBecomes(running, 2)
  leaving[Symbol.dispose]()
  await countBecomes(running, 0)
})

test('a call of FetchSecrets counts no more when its deadline has passed, or its message cannot be read', async () => {
  await using running = await startServer({ limits: { messageBytes: 10 } })
  using peer = new RawPeer(running.path)
  const late = peer.session.request({
    ':method': 'POST',
    ':path': FETCH,
    'content-type': 'application/grpc',
    'grpc-timeout': '1m',
  })
  const answered = once(late.resume(), 'response')
  await countBecomes(running, 1)
  await running.source.clock.advance(1)
  await answered
  const tooBig = open(peer, FETCH)
  tooBig.write(Buffer.from([0, 0, 0, 0, 11]))
  assert.equal(await statusOf(tooBig), RESOURCE_EXHAUSTED)
  await countBecomes(running, 0)
})

test('health checks find room on a socket that is full of streams, and never fill it themselves', async () => {
  await using running = await startServer({ limits: { streams: 1 } })
  using peer = new RawPeer(running.path)
  open(peer, FETCH)
  await countBecomes(running, 1)
  assert.equal(await running.connect().health(), SERVING)
})

test('health watches over their limit are refused, streams are not, and there is room again when one ends', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const watches = Array.from({ length: 1_000 }, () => open(peer, WATCH))
  assert.equal(await statusOf(open(peer, WATCH)), RESOURCE_EXHAUSTED)
  const client = running.connect()
  assert.deepEqual(namesOf(await client.fetch({ resourceNames: [WEB] })), [WEB])
  await countBecomes(running, 0)
  await assert.rejects(client.health(), { code: RESOURCE_EXHAUSTED, details: /2000 health checks/ })
  watches[0]?.close()
  await peer.pinged()
  assert.equal(await client.health(), SERVING)
})

/** Headers, and at once the reset with no error, in one write. */
function rapidReset(path: string): Buffer {
  const literal = (name: string, value: string) => [
    0,
    name.length,
    ...Buffer.from(name),
    value.length,
    ...Buffer.from(value),
  ]
  const headers = Buffer.from([
    ...literal(':method', 'POST'),
    ...literal(':scheme', 'http'),
    ...literal(':path', path),
    ...literal('content-type', 'application/grpc'),
  ])
  const frame = (type: number, flags: number, stream: number, payload: Buffer) =>
    Buffer.concat([Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream]), payload])
  return Buffer.concat([
    Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    frame(4, 0, 0, Buffer.alloc(0)),
    frame(1, 4, 1, headers),
    frame(3, 0, 1, Buffer.alloc(4)),
    frame(6, 0, 0, Buffer.alloc(8)),
  ])
}

for (const path of [FETCH, STREAM]) {
  test(`a call of ${path.split('/')[2]} that is reset before its turn comes leaves nothing behind`, async () => {
    await using running = await startServer()
    const socket = connect(running.path)
    socket.write(rapidReset(path))
    await once(socket, 'data')
    await countBecomes(running, 0)
    assert.deepEqual(running.streams(), [])
    socket.destroy()
  })
}

test('a call that has its status is gone from the connection, even if its peer never ends its side', async () => {
  await using running = await startServer({ limits: { streams: 1, messageBytes: 10 } })
  using peer = new RawPeer(running.path)
  const serving = open(peer, STREAM)
  await countBecomes(running, 1)
  using another = new RawPeer(running.path)
  for (const path of [FETCH, STREAM]) {
    const refused = open(another, path)
    const closed = once(refused, 'close')
    assert.equal(await statusOf(refused), RESOURCE_EXHAUSTED)
    await closed
  }
  const closed = once(serving, 'close')
  serving.write(Buffer.from([0, 0, 0, 0, 11]))
  assert.equal(await statusOf(serving), RESOURCE_EXHAUSTED)
  await closed
  assert.equal(serving.rstCode, 0)
  await countBecomes(running, 0)
})

test('a stream that ended behind an answer counts as long as its peer keeps it half open', async () => {
  await using running = await startServer({ limits: { streams: 1 } })
  using peer = new RawPeer(running.path)
  const stream = peer.open('StreamSecrets')
  stream.ask(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  const trailers = once(stream.http, 'trailers')
  stream.ask('a\0')
  const [{ 'grpc-status': status }] = await trailers
  assert.equal(Number(status), INVALID_ARGUMENT)
  await running.event('stream-closed')
  assert.equal(running.server.sockets()[0]?.streams, 1)
  stream.http.close()
  await countBecomes(running, 0)
})
