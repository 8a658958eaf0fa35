/** Our own HTTP/2 session for unary calls, against servers that decide each frame. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { type TestContext, test } from 'node:test'
import { Metadata, type ServiceError, status } from '@grpc/grpc-js'
import { FakeClock } from '@livery/core/testing'
import { CuttableProxy } from '../../test/cuttable-proxy.ts'
import { answer, framed, RawGrpcServer, type StreamHandler } from '../../test/raw-grpc-server.ts'
import { FaultyCaServer } from '../testing/faulty-ca-server.ts'
import { refusalMetadata } from '../testing/refusal-metadata.ts'
import type { ChannelCall, Keepalive } from './grpc-channel.ts'
import { isStatus } from './grpc-status.ts'
import { Http2Channel } from './http2-channel.ts'
import { retryDelayOf } from './retry-info.ts'

const CALL: ChannelCall = { path: '/ca.CA/Sign', request: Buffer.from('csr'), metadata: new Metadata() }
const HEADERS = { ':status': 200, 'content-type': 'application/grpc' }

interface Setup {
  readonly server: RawGrpcServer
  readonly channel: Http2Channel
  readonly clock: FakeClock
  readonly call: (call?: Partial<ChannelCall>, signal?: AbortSignal) => Promise<Buffer>
}

async function setUp(
  t: TestContext,
  handle: StreamHandler,
  {
    port,
    settings,
    keepalive,
  }: {
    readonly port?: number
    readonly settings?: { maxConcurrentStreams: number }
    readonly keepalive?: Keepalive
  } = {},
): Promise<Setup> {
  const server = await RawGrpcServer.start(handle, settings)
  const clock = new FakeClock()
  const target = { host: '127.0.0.1', port: port ?? server.port, serverName: 'ca', plaintext: true, material: {} }
  const channel = new Http2Channel({ target, clock, keepalive, random: () => 0.5 })
  t.after(async () => {
    channel.close()
    await server[Symbol.asyncDispose]()
  })
  const call = (overrides: Partial<ChannelCall> = {}, signal = t.signal) =>
    channel.send({ ...CALL, ...overrides }, signal)
  return { server, channel, clock, call }
}

async function failureOf(calling: Promise<unknown>): Promise<ServiceError> {
  try {
    await calling
  } catch (error) {
    assert.ok(isStatus(error), String(error))
    return error
  }
  assert.fail('the call succeeded')
}

test('a call is a POST with what gRPC prescribes, one message, and its metadata', async t => {
  const { promise: arrived, resolve } = Promise.withResolvers<{
    headers: IncomingHttpHeaders
    body: Promise<Buffer[]>
  }>()
  const { server, call } = await setUp(t, (stream, headers) => {
    resolve({ headers, body: stream.toArray() })
    answer(stream)
  })
  const metadata = new Metadata()
  metadata.set('Authorization', 'Bearer token-1')
  assert.equal(String(await call({ metadata, timeoutMs: 10_000 })), 'answer')
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
  const { server, call } = await setUp(t, stream => answer(stream, long))
  assert.deepEqual(await call(), long)
  server.handle = stream => {
    stream.respond(HEADERS, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    for (const byte of framed(Buffer.alloc(0))) stream.write(Buffer.of(byte))
    stream.end()
  }
  assert.deepEqual(await call(), Buffer.alloc(0))
})

test('a status comes from the trailers or alone, its text percent-decoded, with the wait that the server asks for', async t => {
  const [details] = refusalMetadata(3_000).get('grpc-status-details-bin')
  assert.ok(Buffer.isBuffer(details))
  const trailers = {
    'grpc-status': '8',
    'grpc-message': 'no room for 50%25 %E2%82%AC',
    'grpc-status-details-bin': details.toString('base64').replace(/=+$/, ''),
  }
  const { server, call } = await setUp(t, stream => answer(stream, Buffer.alloc(0), trailers))
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
    const { server, call } = await setUp(t, handle)
    const error = await failureOf(call())
    assert.equal(error.code, code, error.message)
    assert.match(error.details, details)
    server.handle = stream => answer(stream)
    assert.equal(String(await call()), 'answer')
  })

test('metadata that HTTP/2 does not allow fails its call alone', async t => {
  const { call } = await setUp(t, stream => answer(stream))
  const metadata = new Metadata()
  metadata.set('connection', 'close')
  assert.equal((await failureOf(call({ metadata }))).code, status.INTERNAL)
  assert.equal(String(await call()), 'answer')
})

test('an aborted call rejects with the reason of its signal, and the server sees it cancelled', async t => {
  const { promise: arrived, resolve } = Promise.withResolvers<ServerHttp2Stream>()
  const { call } = await setUp(t, resolve)
  const controller = new AbortController()
  const calling = call({}, controller.signal)
  const stream = await arrived
  const closed = once(stream, 'close')
  controller.abort(new Error('nobody waits'))
  await assert.rejects(calling, /nobody waits/)
  await closed
  assert.equal(stream.rstCode, constants.NGHTTP2_CANCEL)
})

test('calls that come at once share one connection, and wait for the streams that the server allows', async t => {
  let open = 0
  let most = 0
  const handle: StreamHandler = stream => {
    most = Math.max(most, ++open)
    setImmediate(() => {
      open--
      answer(stream)
    })
  }
  const { server, call } = await setUp(t, handle, { settings: { maxConcurrentStreams: 2 } })
  const answers = await Promise.all(Array.from({ length: 50 }, () => call()))
  assert.deepEqual(answers.map(String), Array(50).fill('answer'))
  assert.equal(server.sessions.length, 1)
  assert.equal(most, 2)
})

test('after a GOAWAY calls in flight are answered, and the next call has a new connection', async t => {
  const streams: ServerHttp2Stream[] = []
  const arrived = Promise.withResolvers<void>()
  const { server, call } = await setUp(t, stream => {
    streams.push(stream)
    arrived.resolve()
  })
  const inFlight = call()
  await arrived.promise
  server.handle = stream => answer(stream)
  const [session] = server.sessions
  assert.ok(session)
  session.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1)
  // Its PING comes back after the GOAWAY was read.
  await new Promise<void>(resolve => session.ping(() => resolve()))
  assert.equal(String(await call()), 'answer')
  assert.equal(server.sessions.length, 2)
  for (const stream of streams) answer(stream)
  assert.equal(String(await inFlight), 'answer')
})

test('a connection that does not answer a ping is given up, and idle ones are not pinged', async t => {
  const keepalive = { afterMs: 30_000, timeoutMs: 10_000 }
  await using direct = await RawGrpcServer.start(stream => answer(stream))
  await using proxy = await CuttableProxy.start(direct.port)
  const { clock, call } = await setUp(t, () => {}, { port: proxy.port, keepalive })
  await call()
  assert.deepEqual(clock.deadlines(), [])
  proxy.stall()
  const calling = failureOf(call())
  await clock.waitForDeadline(time => time === clock.now() + keepalive.afterMs)
  await clock.advance(keepalive.afterMs)
  await clock.advance(keepalive.timeoutMs)
  const error = await calling
  assert.equal(error.code, status.UNAVAILABLE)
  assert.match(error.details, /no answer to a ping within 10000 ms/)
  assert.deepEqual(clock.deadlines(), [])
})

test('a server that finds the pings too many is asked half as often', async t => {
  const { server, clock, call } = await setUp(t, () => {}, { keepalive: { afterMs: 30_000, timeoutMs: 10_000 } })
  const first = failureOf(call())
  await clock.waitForDeadline(time => time === clock.now() + 30_000)
  server.sessions[0]?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from('too_many_pings'))
  assert.equal((await first).code, status.UNAVAILABLE)
  const controller = new AbortController()
  const second = call({}, controller.signal)
  await clock.waitForDeadline(time => time === clock.now() + 60_000)
  controller.abort(new Error('seen'))
  await assert.rejects(second, /seen/)
})

test('a caller that waits for a server that is down dials it after 50, 100 and then each 200 ms, all together', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  await using proxy = await CuttableProxy.start(server.port)
  const { channel, clock, call } = await setUp(t, () => {}, { port: proxy.port })
  await proxy.refuse()
  const waiting = [channel.ready(5_000, t.signal), channel.ready(5_000, t.signal)]
  const start = clock.now()
  for (const at of [50, 150, 350, 550, 750]) {
    await clock.waitForDeadline(time => time === start + at)
    assert.deepEqual(clock.deadlines(), [start + at, start + 5_000, start + 5_000])
    if (at < 750) await clock.advance(start + at - clock.now())
  }
  await proxy.accept()
  await clock.advance(200)
  await Promise.all(waiting)
  assert.deepEqual(clock.deadlines(), [])
  assert.equal(String(await call()), 'answer')
})

test('nobody dials a server that nobody waits for, and a wait in vain ends with the reason', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  await using proxy = await CuttableProxy.start(server.port)
  const { channel, clock, call } = await setUp(t, () => {}, { port: proxy.port })
  await proxy.refuse()
  assert.match((await failureOf(call())).details, /No connection: connect ECONNREFUSED/)
  assert.deepEqual(clock.deadlines(), [])
  const inVain = failureOf(channel.ready(60, t.signal))
  await clock.waitForDeadline(time => time === clock.now() + 50)
  await clock.advance(50)
  await clock.waitForDeadline(time => time === clock.now() + 100)
  await clock.advance(10)
  assert.match((await inVain).details, /No connection: connect ECONNREFUSED/)
})

test('a channel that is closed while it connects opens nothing, and ends those who wait', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  await using proxy = await CuttableProxy.start(server.port)
  const { channel, call } = await setUp(t, () => {}, { port: proxy.port })
  const calling = failureOf(call())
  channel.close()
  assert.equal((await calling).code, status.UNAVAILABLE)
})

test('a server that refuses the client leaves no socket behind', async t => {
  await using server = await FaultyCaServer.start({ requireClientCertificate: true })
  const roots = Buffer.from(server.authority.trustBundle().join(''))
  const port = Number(server.address.split(':')[1])
  const target = {
    host: '127.0.0.1',
    port,
    serverName: '127.0.0.1',
    sentName: 'localhost',
    plaintext: false,
    material: { roots },
  }
  const channel = new Http2Channel({ target, clock: new FakeClock() })
  assert.match((await failureOf(channel.send(CALL, t.signal))).details, /certificate required/)
  await server.disconnected()
})

test('a server is verified where the environment turns that off for the process', async t => {
  await using server = await FaultyCaServer.start()
  await using stranger = await FaultyCaServer.start()
  const variable = 'NODE_TLS_REJECT_UNAUTHORIZED'
  const before = process.env[variable]
  process.env[variable] = '0'
  t.after(() => {
    if (before === undefined) Reflect.deleteProperty(process.env, variable)
    else process.env[variable] = before
  })
  const [host = '', port] = server.address.split(':')
  const roots = Buffer.from(stranger.authority.trustBundle().join(''))
  const names = { serverName: host, sentName: 'localhost' }
  const target = { host, port: Number(port), ...names, plaintext: false, material: { roots } }
  const channel = new Http2Channel({ target, clock: new FakeClock() })
  const { code, details } = await failureOf(channel.send(CALL, t.signal))
  assert.equal(code, status.UNAVAILABLE)
  assert.match(details, /self-signed certificate|unable to (?:verify|get)/)
})
