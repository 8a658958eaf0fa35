import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { SystemClock } from '@livery/core/plugin'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import {
  API,
  createCitadel,
  isCAError,
  provisionClientCertificate,
  replaceFile,
  setUpCitadel,
  WEB,
} from '../../../test/citadel-setup.ts'
import { FaultyCaServer } from '../../testing/faulty-ca-server.ts'
import { pluginContext, warningsOf } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { CertificateAuthority } from '../embedded/certificate-authority.ts'

const withClientCertificate = {
  config: (directory: string) => ({
    clientCertificate: { certFile: join(directory, 'cert.pem'), keyFile: join(directory, 'key.pem') },
  }),
}

test('a token that was rotated on disk is used at the next call, without the white space around it', async t => {
  const { client, server, directory } = await setUpCitadel(t)
  await client.issue(await workloadRequest(WEB))
  await writeFile(join(directory, 'token'), '  token-2\r\n')
  await client.issue(await workloadRequest(WEB))
  const sent = server.calls.map(call => call.headers['authorization'])
  assert.deepEqual(sent, ['Bearer token-1', 'Bearer token-2'])
})

test("an identity's own token file comes before the plugin's", async t => {
  const { client, server, directory } = await setUpCitadel(t)
  const tokenFile = join(directory, 'api.token')
  await writeFile(tokenFile, 'token-of-api')
  await client.issue(await workloadRequest(API, { tokenFile }))
  assert.equal(server.calls[0]?.headers['authorization'], 'Bearer token-of-api')
})

test('without a token file no authorization header is sent', async t => {
  const server = await FaultyCaServer.start()
  t.after(() => server[Symbol.asyncDispose]())
  const rootCert = server.authority.trustBundle().join('')
  await using client = await createCitadel(
    { address: server.address, rootCert },
    pluginContext({ clock: new SystemClock() }),
  )
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls[0]?.headers['authorization'], undefined)
})

const badTokens: readonly (readonly [string, string | undefined, RegExp])[] = [
  ['missing', undefined, /ENOENT/],
  ['empty', ' \n', /it is empty/],
  ['over 64 kB', 'x'.repeat(65_537), /65537 bytes, more than 65536/],
  ['of two lines', 'hush-one\nhush-two', /a character that no token has/],
]
for (const [what, text, reason] of badTokens) {
  test(`a token file that is ${what} is unauthenticated: the error names it, and the CA is not asked`, async t => {
    const { client, server, directory } = await setUpCitadel(t)
    await rm(join(directory, 'token'))
    if (text !== undefined) await writeFile(join(directory, 'token'), text)
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: Error) => {
      assert.match(error.message, reason)
      assert.doesNotMatch(error.message, /hush/)
      return isCAError('unauthenticated', /Cannot use the token in .*token: .*Mount a token there/)(error)
    })
    assert.equal(server.calls.length, 0)
  })

  test(`a token file that is ${what} is left out where there is a client certificate`, async t => {
    const setup = await setUpCitadel(t, { ...withClientCertificate, server: { requireClientCertificate: true } })
    const { client, server, directory } = setup
    await provisionClientCertificate(setup)
    await rm(join(directory, 'token'))
    if (text !== undefined) await writeFile(join(directory, 'token'), text)
    await client.issue(await workloadRequest(WEB))
    assert.equal(server.calls[0]?.headers['authorization'], undefined)
    assert.equal(server.authority.identify(server.calls[0]?.clientCertificate ?? new Uint8Array()), WEB)
  })
}

test('a token path that is a directory or a FIFO is refused without blocking', async t => {
  const { client, directory } = await setUpCitadel(t)
  const fifo = join(directory, 'fifo')
  execFileSync('mkfifo', [fifo])
  for (const tokenFile of [directory, fifo]) {
    const request = await workloadRequest(WEB, { tokenFile })
    await assert.rejects(client.issue(request), isCAError('unauthenticated', /not a regular file/))
  }
})

test('with a client certificate and a token, both are shown', async t => {
  const setup = await setUpCitadel(t, { ...withClientCertificate, server: { requireClientCertificate: true } })
  await provisionClientCertificate(setup)
  await setup.client.issue(await workloadRequest(WEB))
  const [call] = setup.server.calls
  assert.equal(call?.headers['authorization'], 'Bearer token-1')
  assert.equal(setup.server.authority.identify(call?.clientCertificate ?? new Uint8Array()), WEB)
})

test('client certificate files that come after a failed call are used at the next one', async t => {
  const setup = await setUpCitadel(t, { ...withClientCertificate, server: { requireClientCertificate: true } })
  const { client, server, context } = setup
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable'))
  await provisionClientCertificate(setup)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls.length, 1)
  assert.deepEqual(warningsOf(context), [])
})

test('client certificate files that never come leave the call to fail', async t => {
  const { client } = await setUpCitadel(t, { ...withClientCertificate, server: { requireClientCertificate: true } })
  for (let i = 0; i < 3; i++) await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable'))
})

test('a renewed client certificate is shown on a new connection, and a half-renewed pair is not used', async t => {
  const setup = await setUpCitadel(t, withClientCertificate)
  const { client, server, directory, context } = setup
  await provisionClientCertificate(setup)
  await client.issue(await workloadRequest(WEB))
  await writeFile(join(directory, 'key.pem'), (await workloadRequest(WEB)).privateKeyPem)
  await client.issue(await workloadRequest(WEB))
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.connections, 1)
  assert.equal(warningsOf(context).length, 1)
  assert.match(
    warningsOf(context)[0] ?? '',
    /cert\.pem and .*key\.pem do not belong together.*old one is used meanwhile/,
  )
  await provisionClientCertificate(setup)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.connections, 2)
})

test('the root can be PEM in the configuration', async t => {
  const server = await FaultyCaServer.start()
  t.after(() => server[Symbol.asyncDispose]())
  const rootCert = server.authority.trustBundle().join('')
  const { client } = await setUpCitadel(t, { config: () => ({ address: server.address, rootCert }) })
  await client.issue(await workloadRequest(WEB))
})

test("the system's roots do not vouch for a private CA", async t => {
  const { client } = await setUpCitadel(t, { config: () => ({ rootCert: 'system' }) })
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError(
      'unavailable',
      /No root in rootCert has signed the CA's certificate\. If the CA has a new root, add it there/,
    ),
  )
})

test('with the wrong root the call fails; replaced on disk, it succeeds without a restart', async t => {
  const { client, server, directory } = await setUpCitadel(t)
  const other = await CertificateAuthority.open({ clock: new SystemClock(), trustDomain: 'cluster.local' })
  await replaceFile(join(directory, 'root.pem'), other.trustBundle().join(''))
  const refused =
    /^(?!.*--use-system-ca).* No root in rootCert has signed the CA's certificate\. If the CA has a new root/
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', refused))
  await replaceFile(join(directory, 'root.pem'), server.authority.trustBundle().join(''))
  await client.issue(await workloadRequest(WEB))
})

test('a root file rewritten with the same content keeps the connection, another content makes a new one', async t => {
  const { client, server, directory } = await setUpCitadel(t)
  const root = server.authority.trustBundle().join('')
  await client.issue(await workloadRequest(WEB))
  await replaceFile(join(directory, 'root.pem'), root)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.connections, 1)
  const other = await CertificateAuthority.open({ clock: new SystemClock(), trustDomain: 'cluster.local' })
  await replaceFile(join(directory, 'root.pem'), `${root}${other.trustBundle().join('')}`)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.connections, 2)
})

test('a call that is open when the root changes continues and succeeds', async t => {
  const { client, server, directory } = await setUpCitadel(t)
  const root = server.authority.trustBundle().join('')
  let answer = () => {}
  server.behaviour = { kind: 'sign', chain: chain => chain, until: new Promise(resolve => (answer = resolve)) }
  const arrived = server.nextCall()
  const first = client.issue(await workloadRequest(WEB))
  await arrived
  await replaceFile(join(directory, 'root.pem'), `${root}${root}`)
  server.behaviour = { kind: 'sign' }
  await client.issue(await workloadRequest(API))
  assert.equal(server.connections, 2)
  answer()
  assert.equal((await first).chain.length, 1)
})

test('a call whose connection is still being made when the root changes is not lost', async t => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const { promise: accepted, resolve: accept } = Promise.withResolvers<void>()
  const proxy = createServer(socket => {
    accept()
    socket.on('error', () => {})
    released.then(() => socket.pipe(connect(Number(server.address.split(':')[1]), '127.0.0.1')).pipe(socket))
  })
  await listening(proxy)
  t.after(() => proxy.close())
  const address = `127.0.0.1:${portOf(proxy)}`
  const { client, server, directory } = await setUpCitadel(t, { config: () => ({ address }) })
  const first = client.issue(await workloadRequest(WEB))
  await accepted
  await replaceFile(join(directory, 'root.pem'), server.authority.trustBundle().join('').repeat(2))
  const second = client.issue(await workloadRequest(API))
  await once(proxy, 'connection')
  release()
  await Promise.all([first, second])
  assert.equal(server.connections, 2)
})

test('a root file that is missing or broken is unavailable with its path; once it is there, all is well', async t => {
  const { client, server, directory } = await setUpCitadel(t)
  const path = join(directory, 'root.pem')
  await rm(path)
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('unavailable', /Cannot read the CA's root .*root\.pem: ENOENT/),
  )
  await writeFile(path, 'nothing')
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('unavailable', /root\.pem holds no certificate/),
  )
  await replaceFile(path, server.authority.trustBundle().join(''))
  await client.issue(await workloadRequest(WEB))
})

test('a root file that breaks later causes one warning, and the old root stays in use', async t => {
  const { client, server, directory, context } = await setUpCitadel(t)
  await client.issue(await workloadRequest(WEB))
  writeFileSync(join(directory, 'root.pem'), 'nothing')
  await client.issue(await workloadRequest(WEB))
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.connections, 1)
  assert.equal(warningsOf(context).length, 1)
  assert.match(warningsOf(context)[0] ?? '', /root\.pem holds no certificate.*The old one is used meanwhile/)
})

test('a server with another name is refused, unless that name is configured', async t => {
  const server = { dnsNames: ['istiod.example'] }
  const host = (address: string) => address.replace('127.0.0.1', 'localhost')
  const refused = await setUpCitadel(t, { server })
  const wrong = await createCitadel(
    { address: host(refused.server.address), rootCert: refused.server.authority.trustBundle().join('') },
    pluginContext({ clock: new SystemClock() }),
  )
  t.after(() => wrong[Symbol.asyncDispose]())
  await assert.rejects(wrong.issue(await workloadRequest(WEB)), isCAError('unavailable', /altnames.*serverName/))
  const right = await setUpCitadel(t, { server, config: () => ({ serverName: 'istiod.example' }) })
  await right.client.issue(await workloadRequest(WEB))
})

test('port 15010 means no TLS, silently on loopback', async t => {
  // Some address of 127.0.0.0/8 has the port free.
  const host = `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(1, 255)}`
  const directory = temporaryFolder(t)
  await writeFile(join(directory, 'token'), 'token-1')
  let server: FaultyCaServer
  try {
    server = await FaultyCaServer.start({ plaintext: true, host, port: 15010 })
  } catch (error) {
    t.skip(`${host}:15010 cannot be bound: ${error}`)
    return
  }
  t.after(() => server[Symbol.asyncDispose]())
  const context = pluginContext({ clock: new SystemClock() })
  await using client = await createCitadel({ address: server.address, tokenFile: join(directory, 'token') }, context)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls[0]?.headers['authorization'], 'Bearer token-1')
})

test('port 15010 of another machine is warned of', async () => {
  const context = pluginContext({ clock: new SystemClock() })
  await using _ = await createCitadel({ address: 'istiod.istio-system.svc:15010' }, context)
  assert.equal(warningsOf(context).length, 1)
  assert.match(warningsOf(context)[0] ?? '', /istiod\.istio-system\.svc:15010 is not encrypted.*15012/)
})
