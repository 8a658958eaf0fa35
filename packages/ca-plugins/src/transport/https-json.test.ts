import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { CAError, SystemClock, splitCertificates, type TlsMaterial } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { freePort, listening, portOf } from '@livery/test-support'
import { isCAError } from '../../test/citadel-setup.ts'
import { JsonCaServer, type JsonHandler } from '../../test/json-ca-server.ts'
import { FakeCA } from '../conformance/index.ts'
import { CertificateAuthority } from '../plugins/embedded/index.ts'
import { addressProblem, HttpsJson, type HttpsJsonOptions, retryAfterOf } from './https-json.ts'

const ANSWER = { status: 200, body: { good: true } }
const action = 'get a certificate'

async function serve(t: TestContext, handler: JsonHandler, ca?: FakeCA): Promise<JsonCaServer> {
  const server = await JsonCaServer.start(handler, ca && (await ca.serverCertificate()))
  t.after(() => server[Symbol.asyncDispose]())
  return server
}

function open(t: TestContext, address: string, options: Partial<HttpsJsonOptions> = {}): HttpsJson {
  const client = new HttpsJson({ address, tls: undefined, clock: new FakeClock(), timeoutMs: 5_000, ...options })
  t.after(() => client[Symbol.asyncDispose]())
  return client
}

async function createCa(t: TestContext): Promise<FakeCA> {
  using clock = new SystemClock()
  const ca = await FakeCA.create({ clock })
  t.after(() => ca[Symbol.dispose]())
  return ca
}

test('paths are taken from the address, whether it ends in a slash or not', async t => {
  const server = await serve(t, async () => ANSWER)
  for (const address of [`${server.address}/ca`, `${server.address}/ca/`, `${server.address}/ca//`])
    await open(t, address).request({ action, path: 'v1/sign', signal: t.signal })
  assert.deepEqual(new Set(server.calls.map(({ path }) => path)), new Set(['/ca/v1/sign']))
})

test('one call after the other uses one connection', async t => {
  const server = await serve(t, async () => ANSWER)
  const client = open(t, server.address)
  for (let count = 0; count < 10; count++) await client.request({ action, path: 'x', signal: t.signal })
  assert.equal(server.connections, 1)
})

test('however many calls are open, they share sixty-four connections', async t => {
  const all = Promise.withResolvers<void>()
  let arrived = 0
  const server = await serve(t, async () => {
    if (++arrived === 64) all.resolve()
    await all.promise
    return ANSWER
  })
  const client = open(t, server.address)
  const calls = Array.from({ length: 200 }, () => client.request({ action, path: 'x', signal: t.signal }))
  await Promise.all(calls)
  assert.equal(server.connections, 64)
})

test('a server whose root changed on disk is reached without a restart, and an unknown one is not', async t => {
  const [first, second] = [await createCa(t), await createCa(t)]
  const server = await serve(t, async () => ANSWER, second)
  let material: TlsMaterial = { roots: Buffer.from(first.trustBundle().join('')) }
  const client = open(t, server.address, { tls: async () => material })
  const call = () => client.request({ action, path: 'x', headers: { 'x-vault-token': 'secret' }, signal: t.signal })
  const refused = /^(?!.*--use-system-ca)Cannot get a certificate: .*certificate.* No root in rootCert has signed/
  await assert.rejects(call(), isCAError('unavailable', refused))
  assert.equal(server.calls.length, 0)
  material = { roots: Buffer.from(second.trustBundle().join('')) }
  assert.equal((await call()).status, 200)
})

test("no advice of Node's about its own command line is given, where a server shows its leaf alone", async t => {
  using clock = new SystemClock()
  const [authority, other] = await Promise.all(
    [1, 2].map(() => CertificateAuthority.open({ clock, trustDomain: 'cluster.local' })),
  )
  assert.ok(authority && other)
  const names = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }
  const { chain, privateKey } = await authority.issueServerCertificate(names, 3600)
  const [leaf = ''] = splitCertificates(String(chain))
  const server = await JsonCaServer.start(async () => ANSWER, { cert: leaf, key: privateKey })
  t.after(() => server[Symbol.asyncDispose]())
  const roots = Buffer.from(other.trustBundle().join(''))
  const client = open(t, server.address, { tls: async () => ({ roots }) })
  const expected = /^Cannot get a certificate: unable to verify the first certificate\. No root in rootCert has signed/
  const asked = client.request({ action, path: 'x', signal: t.signal })
  await assert.rejects(asked, isCAError('unavailable', expected))
})

test('a server with a certificate for another name is not asked', async t => {
  using clock = new SystemClock()
  const authority = await CertificateAuthority.open({ clock, trustDomain: 'cluster.local' })
  const names = { dnsNames: ['other.example'], ipAddresses: [] }
  const { chain, privateKey } = await authority.issueServerCertificate(names, 3600)
  const server = await JsonCaServer.start(async () => ANSWER, { cert: chain, key: privateKey })
  t.after(() => server[Symbol.asyncDispose]())
  const roots = Buffer.from(authority.trustBundle().join(''))
  const client = open(t, server.address, { tls: async () => ({ roots }) })
  const asked = client.request({ action, path: 'x', signal: t.signal })
  await assert.rejects(asked, isCAError('unavailable', /altnames.*Check rootCert and the host in address/))
  assert.equal(server.calls.length, 0)
})

test('a missing answer is a timeout by the clock, and later calls have a new connection', async t => {
  const clock = new FakeClock()
  let hang = true
  const server = await serve(t, async () => (hang ? new Promise<never>(() => {}) : ANSWER))
  const client = open(t, server.address, { clock })
  const arrived = server.nextCall()
  const asked = assert.rejects(client.request({ action, path: 'x', signal: t.signal }), isCAError('timeout', /5000 ms/))
  await arrived
  await clock.advance(5_000)
  await asked
  hang = false
  await client.request({ action, path: 'x', signal: t.signal })
  assert.equal(server.connections, 2)
  assert.deepEqual(clock.deadlines(), [])
})

test('an aborted call rejects with the reason and is taken back', async t => {
  const server = await serve(t, () => new Promise<never>(() => {}))
  const client = open(t, server.address)
  const controller = new AbortController()
  const reason = new CAError('timeout', 'nobody waits')
  const arrived = server.nextCall()
  const asked = assert.rejects(client.request({ action, path: 'x', signal: controller.signal }), reason)
  const { cancelled } = await arrived
  controller.abort(reason)
  await asked
  await cancelled
})

test('an answer over 1 MB is a bad-response, and a body that is not JSON leaves json undefined', async t => {
  let body = 'x'.repeat(1_048_577)
  const server = await serve(t, async () => ({ status: 200, body }))
  const client = open(t, server.address)
  const call = () => client.request({ action, path: 'x', signal: t.signal })
  await assert.rejects(call(), isCAError('bad-response', /more than 1048576 bytes/))
  body = '<html>'
  assert.equal((await call()).json, undefined)
})

test('an answer in a million pieces, or of a million values, is given up at the first few thousand', async t => {
  const sent = { bytes: 0 }
  const chunks = Buffer.from('1\r\n \r\n'.repeat(1_000_000))
  const server = createServer(socket => {
    socket
      .on('error', () => {})
      .once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
        socket.write(chunks, () => {
          sent.bytes = chunks.length
        })
      })
  })
  await listening(server)
  t.after(() => server.close())
  const port = portOf(server)
  const call = open(t, `http://127.0.0.1:${port}`).request({ action, path: 'x', signal: t.signal })
  await assert.rejects(call, isCAError('bad-response', /more than 1048576 bytes or 4096 pieces/))
  assert.equal(sent.bytes, 0, 'the rest was not read')

  const nested = await serve(t, async () => ({
    status: 200,
    body: `{"a":${'['.repeat(400_000)}${']'.repeat(400_000)}}`,
  }))
  assert.equal((await open(t, nested.address).request({ action, path: 'x', signal: t.signal })).json, undefined)
  const listed = await serve(t, async () => ({ status: 200, body: { data: Array(5_000).fill('a') } }))
  assert.ok((await open(t, listed.address).request({ action, path: 'x', signal: t.signal })).json)
})

test('a redirect is not followed', async t => {
  const elsewhere = await serve(t, async () => ANSWER)
  const server = await serve(t, async () => ({ status: 307, headers: { location: elsewhere.address } }))
  const { status } = await open(t, server.address).request({ action, path: 'x', signal: t.signal })
  assert.equal(status, 307)
  assert.equal(elsewhere.calls.length, 0)
})

test('a connection that breaks, a closed port and an answer that is not HTTP are unavailable', async t => {
  const broken = await serve(t, async () => 'reset')
  const raw = await listening(createServer(socket => socket.resume().end('SSH-2.0-OpenSSH\r\n')))
  t.after(() => new Promise(resolve => raw.close(resolve)))
  const port = portOf(raw)
  const closed = await JsonCaServer.start(async () => ANSWER)
  await closed[Symbol.asyncDispose]()
  for (const address of [broken.address, `http://127.0.0.1:${port}`, closed.address])
    await assert.rejects(
      open(t, address).request({ action, path: 'x', signal: t.signal }),
      isCAError('unavailable', /Check the address and the network/),
    )
})

test('an answer ends the outage: the first attempts of the next one follow each other closely again', async t => {
  const clock = new FakeClock()
  const port = await freePort()
  const client = open(t, `http://127.0.0.1:${port}`, { clock })
  const waitInVain = async () => {
    const waiting = client.reachable({ connectWithinMs: 1_000 }, t.signal)
    const isFirstPause = (time: number) => time >= clock.now() + 40 && time <= clock.now() + 60
    await clock.waitForDeadline(isFirstPause)
    await clock.advance(1_000)
    await waiting
  }
  await waitInVain()
  await clock.advance(600_000)
  const server = createHttpServer((_, response) => response.end('{}'))
  await listening(server, port)
  await client.request({ action, path: 'x', signal: t.signal })
  server.close().closeAllConnections()
  await once(server, 'close')
  await waitInVain()
})

test('Retry-After is read as seconds and as a date', () => {
  const clock = new FakeClock()
  const at = (value: string) => retryAfterOf({ headers: { 'retry-after': value } }, clock)
  assert.equal(at('7'), 7_000)
  assert.equal(at(new Date(clock.now() + 60_000).toUTCString()), 60_000 - (clock.now() % 1000))
  assert.equal(at('Thu, 01 Jan 1970 00:00:00 GMT'), 0)
  assert.equal(at('soon'), undefined)
})

test('an address is https, or http on loopback, and nothing more', () => {
  for (const good of ['https://ca.example', 'https://ca.example:8443/v/', 'http://127.0.0.1:8200', 'http://[::1]:1'])
    assert.equal(addressProblem(good), undefined)
  for (const [bad, problem] of [
    ['localhost:8443', /is not a URL. Write it like https/],
    ['http://ca.example', /unencrypted. Use https/],
    ['https://me:secret@ca.example', /^has an "@". Leave a user name/],
    ['https://:secret@ca.example', /^has an "@"/],
    ['https://me:sec/ret@ca.example', /^has an "@"/],
    ['https://ca.example/?x=1', /Leave the rest out/],
    ['ca', /is not a URL/],
  ] as const)
    assert.match(addressProblem(bad) ?? '', problem)
})
