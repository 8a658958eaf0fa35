/** The session of unary calls: when it is dialled, shared, probed and given up. */
import assert from 'node:assert/strict'
import { constants, type ServerHttp2Stream } from 'node:http2'
import { test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { FakeClock } from '@livery/core/testing'
import { CALL, failureOf, setUpChannel } from '../../test/channel-setup.ts'
import { CuttableProxy } from '../../test/cuttable-proxy.ts'
import { answer, RawGrpcServer, type StreamHandler } from '../../test/raw-grpc-server.ts'
import { FaultyCaServer } from '../testing/faulty-ca-server.ts'
import { GrpcConnection } from './grpc-connection.ts'

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
  const { server, call } = await setUpChannel(t, handle, { settings: { maxConcurrentStreams: 2 } })
  const answers = await Promise.all(Array.from({ length: 50 }, () => call()))
  assert.deepEqual(answers.map(String), Array(50).fill('answer'))
  assert.equal(server.sessions.length, 1)
  assert.equal(most, 2)
})

test('after a GOAWAY calls in flight are answered, and the next call has a new connection', async t => {
  const streams: ServerHttp2Stream[] = []
  const arrived = Promise.withResolvers<void>()
  const { server, call } = await setUpChannel(t, stream => {
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
  const { clock, call } = await setUpChannel(t, () => {}, { port: proxy.port, keepalive })
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
  const { server, clock, call } = await setUpChannel(t, () => {}, { keepalive: { afterMs: 30_000, timeoutMs: 10_000 } })
  const first = failureOf(call())
  await clock.waitForDeadline(time => time === clock.now() + 30_000)
  server.sessions[0]?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from('too_many_pings'))
  assert.equal((await first).code, status.UNAVAILABLE)
  const controller = new AbortController()
  const second = call({ signal: controller.signal })
  await clock.waitForDeadline(time => time === clock.now() + 60_000)
  controller.abort(new Error('seen'))
  await assert.rejects(second, /seen/)
})

test('a caller that waits for a server that is down dials it after 50 and then each 100 ms, all together', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  await using proxy = await CuttableProxy.start(server.port)
  const { clock, call } = await setUpChannel(t, () => {}, { port: proxy.port })
  await proxy.refuse()
  const waiting = [call({ connectWithinMs: 5_000 }), call({ connectWithinMs: 5_000 })]
  const start = clock.now()
  for (const at of [50, 150, 250, 350, 450]) {
    await clock.waitForDeadline(time => time === start + at)
    assert.deepEqual(clock.deadlines(), [start + at, start + 5_000, start + 5_000])
    if (at < 450) await clock.advance(start + at - clock.now())
  }
  await proxy.accept()
  await clock.advance(100)
  await Promise.all(waiting)
  assert.deepEqual(clock.deadlines(), [])
  assert.equal(String(await call()), 'answer')
})

test('nobody dials a server that nobody waits for, and a wait in vain ends with the reason', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  await using proxy = await CuttableProxy.start(server.port)
  const { clock, call } = await setUpChannel(t, () => {}, { port: proxy.port })
  await proxy.refuse()
  assert.match((await failureOf(call())).details, /No connection: connect ECONNREFUSED/)
  assert.deepEqual(clock.deadlines(), [])
  const inVain = failureOf(call({ connectWithinMs: 60 }))
  await clock.waitForDeadline(time => time === clock.now() + 50)
  await clock.advance(50)
  await clock.waitForDeadline(time => time === clock.now() + 100)
  await clock.advance(10)
  assert.match((await inVain).details, /No connection: connect ECONNREFUSED/)
})

test('a channel that is closed while it connects opens nothing, and ends those who wait', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  await using proxy = await CuttableProxy.start(server.port)
  const { channel, call } = await setUpChannel(t, () => {}, { port: proxy.port })
  const calling = failureOf(call())
  channel.close()
  assert.equal((await calling).code, status.UNAVAILABLE)
})

test('a channel that is closed between two attempts to connect ends those who wait', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  await using proxy = await CuttableProxy.start(server.port)
  const { channel, clock, call } = await setUpChannel(t, () => {}, { port: proxy.port })
  await proxy.refuse()
  const waiting = failureOf(call({ connectWithinMs: 5_000 }))
  await clock.waitForDeadline(time => time === clock.now() + 50)
  channel.close()
  assert.match((await waiting).details, /the channel is closed/)
  assert.deepEqual(clock.deadlines(), [])
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
  const channel = new GrpcConnection({ target, clock: new FakeClock() })
  assert.match((await failureOf(channel.call({ ...CALL, signal: t.signal }))).details, /certificate required/)
  await server.disconnected()
})

for (const sentName of [undefined, '127.0.0.1'])
  test(`a server is reached at its address where the name to send is ${sentName ?? 'not set'}`, async t => {
    await using server = await FaultyCaServer.start()
    const [host = '', port] = server.address.split(':')
    const roots = Buffer.from(server.authority.trustBundle().join(''))
    const target = { host, port: Number(port), serverName: host, sentName, plaintext: false, material: { roots } }
    const channel = new GrpcConnection({ target, clock: new FakeClock() })
    t.after(() => channel.close())
    assert.equal((await failureOf(channel.call({ ...CALL, signal: t.signal }))).code, status.UNIMPLEMENTED)
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
  const channel = new GrpcConnection({ target, clock: new FakeClock() })
  const { code, details } = await failureOf(channel.call({ ...CALL, signal: t.signal }))
  assert.equal(code, status.UNAVAILABLE)
  assert.match(details, /self-signed certificate|unable to (?:verify|get)/)
})
