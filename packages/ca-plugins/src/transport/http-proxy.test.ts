/** Calls to a CA through the proxy that the environment names, and what gRPC's own variables say about TLS. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { FakeClock } from '@livery/core/testing'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { CALL, failureOf } from '../../test/channel-setup.ts'
import { answer, RawGrpcServer } from '../../test/raw-grpc-server.ts'
import { FaultyCaServer } from '../testing/faulty-ca-server.ts'
import { GrpcConnection } from './grpc-connection.ts'
import { proxyFor } from './http-proxy.ts'
import type { ChannelTarget } from './http2-dial.ts'

/** No resolver knows it: only a proxy leads there. */
const HOST = 'ca.invalid'
const URL = 'http://proxy.example:3128'

test('the environment names the proxy of a CA, or none', () => {
  const rows: readonly (readonly [host: string, environment: Record<string, string>, proxied: boolean])[] = [
    ['ca.example', {}, false],
    ['ca.example', { https_proxy: '' }, false],
    ...['grpc_proxy', 'https_proxy', 'HTTPS_PROXY', 'http_proxy'].map(
      name => ['ca.example', { [name]: URL }, true] as const,
    ),
    ['ca.example', { HTTP_PROXY: URL }, false],
    ['localhost', { https_proxy: URL }, false],
    ['127.0.0.1', { https_proxy: URL }, false],
    ['::1', { https_proxy: URL }, false],
    ['ca.example', { https_proxy: URL, no_proxy: 'svc, ca.example' }, false],
    ['ca.example', { HTTPS_PROXY: URL, NO_PROXY: '.example' }, false],
    ['CA.example', { https_proxy: URL, no_proxy: '*.Example' }, false],
    ['ca.example', { https_proxy: URL, no_proxy: '*' }, false],
    ['ca.example', { https_proxy: URL, no_grpc_proxy: 'example', no_proxy: 'other' }, false],
    ['ca.example', { https_proxy: URL, no_proxy: 'ample, ,a.example,10.0.0.0/8' }, true],
    ['10.1.2.3', { https_proxy: URL, no_proxy: '10.0.0.0/8' }, false],
    ['10.1.2.3', { https_proxy: URL, no_proxy: '10.1.2.3' }, false],
    ['11.1.2.3', { https_proxy: URL, no_proxy: '10.0.0.0/8,1.2.3,11.0.0.0/40' }, true],
    ['fd00::1', { https_proxy: URL, no_proxy: 'fd00::/8' }, false],
  ]
  for (const [host, environment, proxied] of rows)
    assert.equal(proxyFor(host, environment) !== undefined, proxied, `${host} ${JSON.stringify(environment)}`)
  const both = { https_proxy: 'http://second:1', grpc_proxy: 'http://us%40er:pa%3Ass@[fd00::2]' }
  const authorization = `Basic ${Buffer.from('us@er:pa:ss').toString('base64')}`
  assert.deepEqual(proxyFor('ca.example', both), { host: 'fd00::2', port: 80, authorization })
})

interface RunningProxy {
  readonly url: string
  readonly connects: { readonly url: string; readonly authorization: string | undefined }[]
}

/** Leads every CONNECT to that port, or answers it with `code`. */
async function startProxy(t: TestContext, port: number, code = 200): Promise<RunningProxy> {
  const running: RunningProxy = { url: '', connects: [] }
  const server = createServer().on('connect', ({ url = '', headers }, socket) => {
    running.connects.push({ url, authorization: headers['proxy-authorization'] })
    socket.on('error', () => {}).write(`HTTP/1.1 ${code} Status\r\n\r\n`)
    if (code !== 200) return
    const upstream = connect(port, '127.0.0.1').on('error', () => {})
    socket.on('close', () => upstream.destroy())
    socket.pipe(upstream).pipe(socket)
  })
  await listening(server)
  t.after(() => server.close())
  return Object.assign(running, { url: `http://user:hunter2@127.0.0.1:${portOf(server)}` })
}

function channelTo(
  t: TestContext,
  target: Partial<ChannelTarget>,
  environment: Record<string, string>,
): GrpcConnection {
  const whole = { host: HOST, port: 15012, serverName: 'ca', plaintext: true, material: {}, ...target }
  const channel = new GrpcConnection({ target: whole, clock: new FakeClock() }, environment)
  t.after(() => channel.close())
  return channel
}

test('calls go through the proxy, which gets the name of the CA and its own password', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  const proxy = await startProxy(t, server.port)
  const channel = channelTo(t, {}, { HTTPS_PROXY: proxy.url })
  for (let calls = 0; calls < 2; calls++)
    assert.equal(String(await channel.call({ ...CALL, signal: t.signal })), 'answer')
  const authorization = `Basic ${Buffer.from('user:hunter2').toString('base64')}`
  assert.deepEqual(proxy.connects, [{ url: `${HOST}:15012`, authorization }])
})

test('TLS is spoken with the CA, through the proxy, and not with the proxy', async t => {
  await using server = await FaultyCaServer.start()
  await using stranger = await FaultyCaServer.start()
  const proxy = await startProxy(t, Number(server.address.split(':')[1]))
  const environment = { https_proxy: proxy.url }
  const tls = { plaintext: false, serverName: 'localhost' }
  const roots = Buffer.from(server.authority.trustBundle().join(''))
  const channel = channelTo(t, { ...tls, material: { roots } }, environment)
  assert.equal((await failureOf(channel.call({ ...CALL, signal: t.signal }))).code, status.UNIMPLEMENTED)
  const others = Buffer.from(stranger.authority.trustBundle().join(''))
  const mistrusting = channelTo(t, { ...tls, material: { roots: others } }, environment)
  const { code, details } = await failureOf(mistrusting.call({ ...CALL, signal: t.signal }))
  assert.equal(code, status.UNAVAILABLE)
  assert.match(details, /certificate/)
})

for (const [what, code, start] of [
  ['that refuses', /HTTP status 407/, (t: TestContext) => startProxy(t, 0, 407)],
  ['that says that its answer comes later', /HTTP status 103/, (t: TestContext) => startProxy(t, 0, 103)],
  ['that nobody runs', /ECONNREFUSED/, async () => ({ url: 'http://user:hunter2@127.0.0.1:1' })],
] as const)
  test(`a proxy ${what} is named, without its password`, async t => {
    const { url } = await start(t)
    const failure = await failureOf(channelTo(t, {}, { https_proxy: url }).call({ ...CALL, signal: t.signal }))
    assert.equal(failure.code, status.UNAVAILABLE)
    assert.match(failure.details, code)
    assert.match(failure.details, /the proxy 127\.0\.0\.1:\d+/)
    assert.doesNotMatch(failure.details, /hunter2/)
  })

for (const value of ['https://user:hunter2@proxy.example', 'proxy.example:3128', 'socks5://proxy.example', 'http://'])
  test(`https_proxy ${value} is refused, and no CA is called without it`, async t => {
    const { code, details } = await failureOf(
      channelTo(t, {}, { https_proxy: value }).call({ ...CALL, signal: t.signal }),
    )
    assert.equal(code, status.UNAVAILABLE)
    assert.match(details, /Cannot use https_proxy /)
    assert.doesNotMatch(details, /hunter2/)
  })

test("gRPC's variables name roots where the configuration has none, and ciphers", async t => {
  await using server = await FaultyCaServer.start()
  const port = Number(server.address.split(':')[1])
  const rootsFile = join(temporaryFolder(t), 'roots.pem')
  await writeFile(rootsFile, server.authority.trustBundle().join(''))
  const target = { host: '127.0.0.1', port, serverName: '127.0.0.1', plaintext: false }
  const callWith = async (environment: Record<string, string>) =>
    await failureOf(channelTo(t, target, environment).call({ ...CALL, signal: t.signal }))
  const roots = { GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: rootsFile }
  assert.equal((await callWith({})).code, status.UNAVAILABLE)
  assert.equal((await callWith(roots)).code, status.UNIMPLEMENTED)
  assert.match((await callWith({ ...roots, GRPC_SSL_CIPHER_SUITES: 'NONE-SUCH' })).details, /cipher/i)
  assert.match((await callWith({ GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: '/nowhere' })).details, /ENOENT/)
})
