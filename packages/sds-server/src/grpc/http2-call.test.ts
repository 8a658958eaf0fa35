/** The parts of a call beside its messages: headers, deadlines, status. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ClientHttp2Stream, createServer, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { listening, temporaryFolder } from '@livery/test-support'
import { collectGarbage } from '../../../core/test/heap-growth.ts'
import { peerNode } from '../../test/peer-node.ts'
import { RawPeer, RawStream, requestFrame } from '../../test/raw-peer.ts'
import { API, startServer, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'
import { Http2Call } from './http2-call.ts'

const METHOD = '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets'
const OK = 0
const INVALID_ARGUMENT = 3
const DEADLINE_EXCEEDED = 4

function open(peer: RawPeer, headers: OutgoingHttpHeaders = {}): ClientHttp2Stream {
  return peer.request(METHOD, headers).on('error', () => {})
}

/** The status of an answer without messages. */
async function statusOf(call: ClientHttp2Stream): Promise<readonly [code: number, message: string]> {
  const [headers] = await once(call.resume(), 'response')
  return [Number(headers['grpc-status']), decodeURIComponent(String(headers['grpc-message']))]
}

test('a response has the headers of gRPC, and its stream ends with trailers when the peer ends its side', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const call = open(peer)
  const stream = new RawStream(call)
  const [response, trailers] = [once(call, 'response'), once(call, 'trailers')]
  stream.ask(WEB)
  const [headers] = await response
  assert.deepEqual([headers[':status'], headers['content-type']], [200, 'application/grpc+proto'])
  assert.equal(headers['grpc-status'], undefined)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  call.end()
  const [{ 'grpc-status': code, 'grpc-message': message }] = await trailers
  assert.deepEqual([Number(code), message], [OK, 'OK'])
  const { status } = await running.event('stream-closed')
  assert.equal(status, OK)
})

test('an open call keeps no headers', async t => {
  const path = join(temporaryFolder(t), 'sds.sock')
  const calls: Http2Call[] = []
  const headers: WeakRef<IncomingHttpHeaders>[] = []
  const server = await listening(createServer(), path)
  t.after(() => server.close())
  server.on('stream', (stream, received) => {
    const call = new Http2Call(stream, received, new FakeClock())
    assert.equal(call.header('te'), 'trailers')
    call.start({ refuse() {}, onEnd() {}, onGone() {} })
    calls.push(call)
    headers.push(new WeakRef(received))
  })
  using peer = new RawPeer(path)
  open(peer)
  await peer.pinged()
  collectGarbage()
  assert.equal(calls.length, 1)
  assert.equal(headers[0]?.deref(), undefined)
})

test('requests are read however their bytes are split or joined', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const call = open(peer)
  const stream = new RawStream(call)
  const bytes = requestFrame({ resourceNames: [WEB], node: peerNode('raw') })
  for (const byte of bytes) {
    call.write(Buffer.from([byte]))
    await peer.pinged()
  }
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  const again = requestFrame({ resourceNames: ['ROOTCA'] })
  call.write(Buffer.concat([again, again, again.subarray(0, 3)]))
  for (let i = 0; i < 2; i++) assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
  call.write(again.subarray(3))
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
})

test('a stream that was paused takes more than its window afterwards', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  const ask = requestFrame({ resourceNames: ['ROOTCA'], node: peerNode('raw') })
  // The third is read when the second is answered: until then the stream is paused.
  stream.http.write(Buffer.concat([ask, ask, ask]))
  for (let i = 0; i < 2; i++) await stream.next()
  for (let sent = 0; sent < 200_000; sent += 1_000) {
    const response = await stream.next()
    stream.ack({ ...response, versionInfo: 'x'.repeat(1_000) }, 'ROOTCA')
    stream.ask('ROOTCA')
  }
})

test('requests are answered in their order, those too that waited for the rate of their caller', async () => {
  await using running = await startServer({ limits: { perCaller: { requestsPerSecond: 100 } } })
  using peer = new RawPeer(running.path)
  const stream = peer.open()
  const names = Array.from({ length: 700 }, (_, index) => [WEB, API, 'ROOTCA'][index % 3] ?? WEB)
  for (const name of names) {
    stream.send({ resourceNames: [name], node: peerNode('raw'), versionInfo: 'x'.repeat(200) })
    if (stream.queued % 50 === 0) await peer.pinged()
  }
  for (const name of names) {
    while (stream.queued === 0) {
      await running.source.clock.advance(100)
      await peer.pinged()
    }
    assert.deepEqual(namesOf(await stream.next()), [name])
  }
})

test('a stream ends at the deadline of its peer, with a status', async () => {
  await using running = await startServer({}, { requestTimeoutMs: 3_600_000 })
  using peer = new RawPeer(running.path)
  const call = open(peer, { 'grpc-timeout': '90S' })
  const answer = statusOf(call)
  await running.event('stream-opened')
  await running.source.clock.advance(89_999)
  await peer.pinged()
  assert.equal(running.streams().length, 1)
  await running.source.clock.advance(1)
  assert.deepEqual(await answer, [DEADLINE_EXCEEDED, 'the deadline of the caller has passed'])
  const { status } = await running.event('stream-closed')
  assert.equal(status, DEADLINE_EXCEEDED)
})

for (const timeout of ['', '10', '123456789S', '1s', '-1S', '1S, 2S'])
  test(`a grpc-timeout of "${timeout}" is refused`, async () => {
    await using running = await startServer()
    using peer = new RawPeer(running.path)
    const [code, message] = await statusOf(open(peer, { 'grpc-timeout': timeout }))
    assert.equal(code, INVALID_ARGUMENT)
    assert.match(message, /grpc-timeout/)
  })

test('a call that is refused for its headers leaves no deadline behind', async () => {
  await using running = await startServer({ workloadApi: true })
  using peer = new RawPeer(running.path)
  const call = peer.request('/SpiffeWorkloadAPI/FetchX509SVID', { 'grpc-timeout': '99999999H' })
  const [code] = await statusOf(call.on('error', () => {}))
  assert.equal(code, INVALID_ARGUMENT)
  const { clock } = running.source
  const inTenYears = clock.now() + 10 * 365 * 86_400_000
  assert.deepEqual(
    clock.deadlines().filter(time => time > inTenYears),
    [],
  )
})

test('a status says in percent encoding what no header can hold', async () => {
  await using running = await startServer()
  using peer = new RawPeer(running.path)
  const call = open(peer)
  call.write(requestFrame({ typeUrl: 'größer\n100 %', node: peerNode('raw') }))
  const [headers] = await once(call.resume(), 'response')
  const encoded = String(headers['grpc-message'])
  assert.match(encoded, /^[\x20-\x7e]*$/)
  assert.match(decodeURIComponent(encoded), /type_url "gr.*100 %.*" is not served here/)
})
