/** Which of the two channels carries the calls: grpc-js only where the environment asks for what it alone does. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Metadata } from '@grpc/grpc-js'
import { SystemClock } from '@livery/core'
import { answer, RawGrpcServer } from '../../test/raw-grpc-server.ts'
import { GrpcConnection } from './grpc-connection.ts'
import { needsGrpcJs } from './grpc-js-channel.ts'

test('a proxy, and ciphers or roots for TLS that the configuration does not name, need grpc-js', () => {
  const roots = { plaintext: false, material: { roots: Buffer.from('pem') } }
  const noRoots = { plaintext: false, material: {} }
  const plain = { plaintext: true, material: {} }
  const none = { https_proxy: '', no_proxy: 'svc', GRPC_VERBOSITY: 'NONE' }
  for (const target of [roots, noRoots, plain]) {
    assert.equal(needsGrpcJs(target, none), false)
    for (const name of ['grpc_proxy', 'https_proxy', 'http_proxy'])
      assert.equal(needsGrpcJs(target, { [name]: 'http://proxy.example:3128' }), true, name)
    assert.equal(needsGrpcJs(target, { GRPC_SSL_CIPHER_SUITES: 'HIGH' }), !target.plaintext)
    assert.equal(needsGrpcJs(target, { GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: '/roots' }), target === noRoots)
  }
})

/** One that forwards what CONNECT asks for, and counts. */
async function startProxy(t: TestContext): Promise<{ readonly server: Server; readonly targets: string[] }> {
  const targets: string[] = []
  const server = createServer().on('connect', ({ url = '' }, socket) => {
    targets.push(url)
    const [host, port] = url.split(':')
    const upstream = connect(Number(port), host)
    socket.write('HTTP/1.1 200 OK\r\n\r\n')
    socket.on('error', () => {}).pipe(upstream)
    upstream.on('error', () => {}).pipe(socket)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  return { server, targets }
}

test('calls go through the proxy of the environment', async t => {
  await using server = await RawGrpcServer.start(stream => answer(stream))
  const proxy = await startProxy(t)
  const { port } = proxy.server.address() as AddressInfo
  process.env['grpc_proxy'] = `http://127.0.0.1:${port}`
  t.after(() => delete process.env['grpc_proxy'])
  const target = { host: '127.0.0.1', port: server.port, serverName: 'ca', plaintext: true, material: {} }
  const connection = new GrpcConnection({ target, clock: new SystemClock() })
  t.after(() => connection.close())
  const call = { path: '/ca.CA/Sign', request: Buffer.from('csr'), metadata: new Metadata(), signal: t.signal }
  assert.equal(String(await connection.call(call)), 'answer')
  assert.deepEqual(proxy.targets, [`127.0.0.1:${server.port}`])
})
