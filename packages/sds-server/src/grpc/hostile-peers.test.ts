/** Input of broken and hostile peers: only their own stream or connection pays for it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2'
import { connect } from 'node:net'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { gzipSync } from 'node:zlib'
import { privateKeyOf } from '@livery/core/testing'
import { peerNode } from '../../test/peer-node.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { API, startServer, WEB } from '../../test/running-server.ts'
import { namesOf, type SotwClientStream } from '../../test/sds-client.ts'
import { DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'

const INVALID_ARGUMENT = 3
const RESOURCE_EXHAUSTED = 8

async function assertStillServes(stream: SotwClientStream): Promise<void> {
  stream.ask(WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
}

for (const [what, resourceNames, details] of [
  [
    'more names than the limit',
    Array.from({ length: 1_001 }, (_, i) => `n${i}`),
    /1001 resource names .* at most 1000/,
  ],
  ['a name of 2,049 bytes', [`spiffe://${'a'.repeat(2_040)}`], /is longer than 2048 bytes/],
  [
    'a name with a newline',
    ['default\nlevel=error msg=forged'],
    /"default\\u\{a\}level=error msg=forged" has a control/,
  ],
  ['a name with an escape sequence', ['\u001b[31mdefault'], /"\\u\{1b\}\[31mdefault" has a control character/],
  ['a name with a NUL', ['default\0'], /has a control character/],
  ['an empty name', [''], /resource name "" is empty/],
] as const) {
  test(`${what} ends that stream with INVALID_ARGUMENT, and leaves nothing behind`, async () => {
    await using running = await startServer()
    const client = running.connect()
    const other = client.sotw()
    const streams = [client.sotw(), client.delta()] as const
    streams[0].ask(...resourceNames)
    streams[1].subscribe(...resourceNames)
    for (const stream of streams) {
      const status = await stream.status
      assert.equal(status.code, INVALID_ARGUMENT)
      assert.match(status.details, details)
      assert.ok(status.details.length < 500)
    }
    assert.equal(running.reports.size, 0)
    await assertStillServes(other)
  })
}

test('a name that is not UTF-8 is refused', async () => {
  await using running = await startServer()
  const stream = running.connect().raw()
  stream.write(Buffer.from([0x12, 0x03, 0x0a, 0x01, 0x6e, 0x1a, 0x02, 0xff, 0xfe]))
  const { code, details } = await stream.status
  assert.equal(code, INVALID_ARGUMENT)
  assert.match(details, /is not UTF-8/)
})

test('another resource type is refused, and no type is the type of secrets', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.send({ resourceNames: [WEB], typeUrl: 'type.googleapis.com/envoy.config.listener.v3.Listener' })
  const { code, details } = await stream.status
  assert.equal(code, INVALID_ARGUMENT)
  assert.match(details, /envoy\.config\.listener\.v3\.Listener" is not served here/)
  const untyped = client.sotw()
  untyped.send({ resourceNames: [WEB], typeUrl: '' })
  assert.deepEqual(namesOf(await untyped.next()), [WEB])
})

test('everything is refused where it is more than the names of one stream', async () => {
  await using running = await startServer({ limits: { names: 2 } })
  const client = running.connect()
  const streams = [client.sotw(), client.delta()] as const
  streams[0].ask()
  streams[1].subscribe()
  for (const stream of streams) assert.equal((await stream.status).code, INVALID_ARGUMENT)
})

test('bytes that are not a request end that stream only', async () => {
  await using running = await startServer()
  const client = running.connect()
  const other = client.sotw()
  for (const bytes of [
    Buffer.from('GET / HTTP/1.1\r\n'),
    Buffer.from([0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f]), // a name of 4 GB
    Buffer.alloc(100_000, 0x0b), // groups in groups
  ]) {
    const stream = client.raw()
    stream.write(bytes)
    const { code, details } = await stream.status
    assert.equal(code, INVALID_ARGUMENT)
    assert.match(details, /not a discovery request/)
  }
  await assertStillServes(other)
})

test('headers that are not ASCII are written to no log', async t => {
  await using running = await startServer()
  const written = t.mock.method(console, 'error')
  using peer = new RawPeer(running.path)
  for (const path of ['/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets', '/grpc.health.v1.Health/Check']) {
    const call = peer.request(path, { 'x-name': 'caf\u00e9'.repeat(100) }).on('error', () => {})
    call.end()
    call.resume()
    await once(call, 'close')
  }
  assert.equal(written.mock.callCount(), 0)
})

test('unknown fields, however many, are skipped', async () => {
  await using running = await startServer()
  const stream = running.connect().raw()
  const request = DiscoveryRequest.encode({
    versionInfo: '',
    node: peerNode('n'),
    resourceNames: [WEB],
    typeUrl: '',
    responseNonce: '',
    errorDetail: undefined,
  }).finish()
  const unknown = Buffer.alloc(90_000, Buffer.from([0x78, 0x01])) // field 15, a varint
  stream.write(Buffer.concat([unknown, request]))
  assert.deepEqual(namesOf(await stream.next()), [WEB])
})

test('a message over the limit ends that stream only', async () => {
  await using running = await startServer({ limits: { messageBytes: 1_000 } })
  const client = running.connect()
  const other = client.sotw()
  const stream = client.raw()
  stream.write(Buffer.alloc(1_001))
  assert.equal((await stream.status).code, RESOURCE_EXHAUSTED)
  await assertStillServes(other)
})

for (const [what, frame, headers] of [
  ['a length of 4 GB', Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1]), {}],
  ['200 MB in 200 kB of gzip', gzipFrame(200_000_000), { 'grpc-encoding': 'gzip' }],
] as const) {
  test(`${what} ends that stream only`, async () => {
    await using running = await startServer()
    const session = connectHttp2('http://localhost', { createConnection: () => connect(running.path) })
    const call = session.request({
      ':method': 'POST',
      ':path': '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets',
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    })
    call.on('error', () => {})
    const status = grpcStatus(call)
    call.write(frame)
    assert.equal(await status, String(RESOURCE_EXHAUSTED))
    session.destroy()
    await assertStillServes(running.connect().sotw())
  })
}

test('rejections without end close the stream, and some a minute do not', async () => {
  await using running = await startServer({}, { nacksPerMinute: 3 })
  const stream = running.connect().sotw()
  stream.ask(WEB)
  const response = await stream.next()
  for (let i = 0; i < 3; i++) stream.nack(response, 'no', WEB)
  stream.ask(API)
  await stream.next()
  await running.source.clock.advance(60_000)
  for (let i = 0; i < 4; i++) stream.nack(response, 'no', API)
  const { code, details } = await stream.status
  assert.equal(code, RESOURCE_EXHAUSTED)
  assert.match(details, /more than 3 rejected responses in a minute/)
})

test('a reader that stops gets the newest version when it reads on, and does not hold up others', async () => {
  await using running = await startServer()
  const slow = running.connect().sotw()
  const quick = running.connect().sotw()
  for (const stream of [slow, quick]) {
    stream.ask('ROOTCA')
    await stream.next()
  }
  slow.pause()
  const versions = Array.from({ length: 60 }, (_, i) => `version-${i}`)
  for (const version of versions) {
    running.source.setBundle('cluster.local', { version, padding: 200_000 })
    assert.equal((await quick.next()).versionInfo, version)
  }
  const pushedToSlow = running.events.filter(
    event => event.kind === 'stream-report' && event.report.kind === 'pushed' && event.stream.connection.id === 1,
  )
  assert.ok(
    pushedToSlow.length < 20,
    `${pushedToSlow.length} of 60 versions were written to a reader that does not read`,
  )
  slow.resume()
  let last = await slow.next()
  let received = 1
  for (; last.versionInfo !== versions.at(-1); received++) last = await slow.next()
  assert.ok(received < 20)
})

test('connections over the limit are closed unread, and there is room again when one leaves', async () => {
  await using running = await startServer({ limits: { connections: 1 } })
  const first = connect(running.path)
  await running.event('connection-opened')
  const second = connect(running.path)
  await once(second, 'close')
  const { reason } = await running.event('connection-refused')
  assert.equal(reason, 'too-many-connections')
  first.destroy()
  await running.event('connection-closed')
  await assertStillServes(running.connect().sotw())
})

test('streams over the limit are refused, and there is room again when one ends', async () => {
  await using running = await startServer({ limits: { streams: 1 } })
  const client = running.connect()
  const first = client.sotw()
  await assertStillServes(first)
  const another = running.connect()
  const second = another.sotw()
  second.ask(WEB)
  const { code, details } = await second.status
  assert.equal(code, RESOURCE_EXHAUSTED)
  assert.match(details, /serves at most 1 streams at once/)
  await assert.rejects(another.fetch({ resourceNames: [WEB] }), { code: RESOURCE_EXHAUSTED })
  first.cancel()
  await running.event('stream-closed')
  await assertStillServes(client.sotw())
})

test('nothing that the server reports holds a key, whatever a NACK quotes', async () => {
  await using running = await startServer()
  const item = running.source.current({ kind: 'identity', identity: WEB })
  assert.equal(item?.kind, 'certificate')
  const key = privateKeyOf(item).toString()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  const response = await stream.next()
  const dumps = [key, JSON.stringify(key), Buffer.from(key).toString('base64'), inspect(Buffer.from(key))]
  for (const dump of dumps) stream.nack(response, `cannot decode ${dump}`, WEB)
  await client.settled()
  const reported = inspect([running.events, running.reports, running.streams()], { depth: 20 })
  assert.match(reported, /cannot decode/)
  const secrets = [key.split('\n')[1] ?? '', Buffer.from(key).toString('base64').slice(40, 80)]
  for (const secret of secrets) {
    assert.ok(secret.length > 30)
    assert.ok(!reported.includes(secret))
  }
})

function gzipFrame(size: number): Buffer {
  const compressed = gzipSync(Buffer.alloc(size))
  const head = Buffer.from([1, 0, 0, 0, 0])
  head.writeUInt32BE(compressed.length, 1)
  return Buffer.concat([head, compressed])
}

/** The status comes in the headers of an answer without messages, else in the trailers. */
function grpcStatus(call: NodeJS.EventEmitter): Promise<unknown> {
  return new Promise(resolve => {
    for (const event of ['response', 'trailers']) {
      call.on(event, (headers: IncomingHttpHeaders) => {
        if (headers['grpc-status'] !== undefined) resolve(headers['grpc-status'])
      })
    }
  })
}
