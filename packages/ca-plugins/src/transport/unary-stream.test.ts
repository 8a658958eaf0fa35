/** One call on an HTTP/2 session, against a server that decides each frame of its answer. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { collectYoung } from '../../../core/test/heap-growth.ts'
import { failureOf, setUpChannel } from '../../test/channel-setup.ts'
import { answer, framed, type StreamHandler } from '../../test/raw-grpc-server.ts'
import { refusalMetadata } from '../testing/refusal-metadata.ts'
import { retryDelayOf } from './retry-info.ts'

const HEADERS = { ':status': 200, 'content-type': 'application/grpc' }

test('a call is a POST with what gRPC prescribes, one message, and its headers', async t => {
  const { promise: arrived, resolve } = Promise.withResolvers<{
    headers: IncomingHttpHeaders
    body: Promise<Buffer[]>
  }>()
  const { server, call } = await setUpChannel(t, (stream, headers) => {
    resolve({ headers, body: stream.toArray() })
    answer(stream)
  })
  const sent = ['authorization', 'Bearer token-1']
  assert.equal(String(await call({ headers: sent, deadline: { ms: 10_000, expire() {} } })), 'answer')
  const { headers, body } = await arrived
  assert.deepEqual(Object.fromEntries(Object.entries(headers)), {
    ':method': 'POST',
    ':scheme': 'http',
    ':authority': `127.0.0.1:${server.port}`,
    ':path': '/ca.CA/Sign',
    'content-type': 'application/grpc',
    te: 'trailers',
    'user-agent': 'livery',
    'grpc-accept-encoding': 'identity',
    'grpc-timeout': '10000m',
    authorization: 'Bearer token-1',
  })
  assert.deepEqual(Buffer.concat(await body), framed(Buffer.from('csr')))
})

test('an answer of many frames is read whole, and an empty one is a message', async t => {
  const long = Buffer.alloc(900_000, 'x')
  const { server, call } = await setUpChannel(t, stream => answer(stream, long))
  assert.deepEqual(await call(), long)
  server.handle = stream => {
    stream.respond(HEADERS, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    for (const byte of framed(Buffer.alloc(0))) stream.write(Buffer.of(byte))
    stream.end()
  }
  assert.deepEqual(await call(), Buffer.alloc(0))
})

test('the answers of calls that ended wait for no collection of the whole heap', async t => {
  const { server, call } = await setUpChannel(t, stream => answer(stream, Buffer.alloc(10_000)))
  await call()
  const before = process.memoryUsage().arrayBuffers
  for (let calls = 0; calls < 300; calls++) await call()
  // Its PING comes back after the last stream was closed.
  await new Promise<void>(resolve => server.sessions[0]?.ping(() => resolve()))
  collectYoung()
  const kept = process.memoryUsage().arrayBuffers - before
  assert.ok(kept < 1_000_000, `${kept} of 3,000,000 bytes are left`)
})

test('a few interim answers come before an answer, and a call without end to them is cancelled', async t => {
  const { server, call } = await setUpChannel(t, stream => {
    for (let sent = 0; sent < 16; sent++) stream.additionalHeaders({ ':status': 103 })
    answer(stream)
  })
  assert.equal(String(await call()), 'answer')
  const { promise: reset, resolve } = Promise.withResolvers<number | undefined>()
  server.handle = stream => {
    for (let sent = 0; sent < 17; sent++) stream.additionalHeaders({ ':status': 103 })
    stream.on('close', () => resolve(stream.rstCode))
  }
  const { code, details } = await failureOf(call())
  assert.equal(code, status.INTERNAL)
  assert.match(details, /more than 16 interim answers/)
  assert.equal(await reset, constants.NGHTTP2_CANCEL)
})

test('a status comes from the trailers or alone, its text percent-decoded, with the wait that the server asks for', async t => {
  const [details] = refusalMetadata(3_000).get('grpc-status-details-bin')
  assert.ok(Buffer.isBuffer(details))
  const trailers = {
    'grpc-status': '8',
    'grpc-message': 'no room for 50%25 %E2%82%AC',
    'grpc-status-details-bin': details.toString('base64').replace(/=+$/, ''),
  }
  const { server, call } = await setUpChannel(t, stream => answer(stream, Buffer.alloc(0), trailers))
  for (const handle of [
    server.handle,
    (stream: ServerHttp2Stream) => stream.respond({ ...HEADERS, ...trailers }, { endStream: true }),
  ]) {
    server.handle = handle
    const error = await failureOf(call())
    assert.equal(error.code, status.RESOURCE_EXHAUSTED)
    assert.equal(error.details, 'no room for 50% €')
    assert.equal(retryDelayOf(error), 3_000)
  }
  server.handle = stream => answer(stream, Buffer.alloc(0), { 'grpc-status': '7', 'grpc-message': '100% wrong' })
  assert.equal((await failureOf(call())).details, '100% wrong')
})

const respond =
  (headers: Record<string, string | number>, body = '') =>
  (stream: ServerHttp2Stream) => {
    stream.respond(headers)
    stream.end(body)
  }
const reset = (code: number) => (stream: ServerHttp2Stream) => stream.close(code)
const failures: Record<string, readonly [StreamHandler, status, RegExp]> = {
  'a page of a proxy': [
    respond({ ':status': 503, 'content-type': 'text/html' }, '<html>'),
    status.UNAVAILABLE,
    /HTTP status code 503/,
  ],
  'a login page': [respond({ ':status': 401 }), status.UNAUTHENTICATED, /HTTP status code 401/],
  'a path that is not there': [respond({ ':status': 404 }, 'none'), status.UNIMPLEMENTED, /HTTP status code 404/],
  'a page with status 200': [
    respond({ ':status': 200, 'content-type': 'text/html' }, '<html>'),
    status.UNKNOWN,
    /not gRPC but text\/html/,
  ],
  'an answer without a status': [respond(HEADERS), status.INTERNAL, /without a status/],
  'headers alone without a status': [
    stream => stream.respond(HEADERS, { endStream: true }),
    status.UNKNOWN,
    /without a gRPC status/,
  ],
  'a status that gRPC does not know': [
    stream => answer(stream, Buffer.alloc(0), { 'grpc-status': '99' }),
    status.UNKNOWN,
    /^$/,
  ],
  'a status that is not a number': [
    stream => answer(stream, Buffer.alloc(0), { 'grpc-status': 'OK' }),
    status.UNKNOWN,
    /^$/,
  ],
  'OK without a message': [stream => answer(stream, Buffer.alloc(0)), status.UNIMPLEMENTED, /No message/],
  'a compressed message': [
    stream => {
      stream.respond({ ...HEADERS, 'grpc-encoding': 'gzip' })
      stream.end(framed(Buffer.from('zip'), 1))
    },
    status.INTERNAL,
    /compressed/,
  ],
  'a message over 1 MB': [
    stream => answer(stream, Buffer.alloc(1_048_577)),
    status.RESOURCE_EXHAUSTED,
    /message larger than max/,
  ],
  'a refused stream': [reset(constants.NGHTTP2_REFUSED_STREAM), status.UNAVAILABLE, /refused the stream/],
  'a cancelled stream': [reset(constants.NGHTTP2_CANCEL), status.CANCELLED, /cancelled/],
  'a server that asks for less': [reset(constants.NGHTTP2_ENHANCE_YOUR_CALM), status.RESOURCE_EXHAUSTED, /less/],
  'another reset': [reset(constants.NGHTTP2_PROTOCOL_ERROR), status.INTERNAL, /reset with code 1/],
  'a connection that ends': [stream => stream.session?.destroy(), status.UNAVAILABLE, /connection was lost/],
}

for (const [what, [handle, code, details]] of Object.entries(failures))
  test(`${what} is ${status[code]}, and the next call succeeds`, async t => {
    const { server, call } = await setUpChannel(t, handle)
    const error = await failureOf(call())
    assert.equal(error.code, code, error.message)
    assert.match(error.details, details)
    server.handle = stream => answer(stream)
    assert.equal(String(await call()), 'answer')
  })

test('headers that HTTP/2 does not allow fails its call alone', async t => {
  const { call } = await setUpChannel(t, stream => answer(stream))
  assert.equal((await failureOf(call({ headers: ['connection', 'close'] }))).code, status.INTERNAL)
  assert.equal(String(await call()), 'answer')
})

test('an aborted call rejects with the reason of its signal, and the server sees it cancelled', async t => {
  const { promise: arrived, resolve } = Promise.withResolvers<ServerHttp2Stream>()
  const { call } = await setUpChannel(t, resolve)
  const controller = new AbortController()
  const calling = call({ signal: controller.signal })
  const stream = await arrived
  const closed = once(stream, 'close')
  controller.abort(new Error('nobody waits'))
  await assert.rejects(calling, /nobody waits/)
  await closed
  assert.equal(stream.rstCode, constants.NGHTTP2_CANCEL)
})
