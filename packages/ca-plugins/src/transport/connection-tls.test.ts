import assert from 'node:assert/strict'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { SystemClock } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { isCAError, replaceFile } from '../../test/citadel-setup.ts'
import { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import { pluginContext, warningsOf } from '../testing/plugin-context.ts'
import { workloadRequest } from '../testing/workload-request.ts'
import { connectionTls } from './connection-tls.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

/** A CA with its root in `root.pem`, and files for a client certificate that are not there yet. */
async function setUp(t: TestContext) {
  const authority = await CertificateAuthority.open({ clock: new SystemClock(), trustDomain: 'cluster.local' })
  const directory = temporaryFolder(t)
  const rootCert = join(directory, 'root.pem')
  await replaceFile(rootCert, authority.trustBundle().join(''))
  const clientCertificate = { certFile: join(directory, 'cert.pem'), keyFile: join(directory, 'key.pem') }
  return { authority, rootCert, clientCertificate, context: pluginContext() }
}

async function makePair(authority: CertificateAuthority) {
  const request = await workloadRequest(WEB)
  const { chain } = await authority.sign({ identity: WEB, csr: request.csrDer, ttlSeconds: 3600 })
  return { certificate: chain.join(''), key: request.privateKeyPem }
}

test('the content of the files is one object, which stays the same while they do', async t => {
  const { authority, rootCert, clientCertificate, context } = await setUp(t)
  const pair = await makePair(authority)
  await writeFile(clientCertificate.certFile, pair.certificate)
  await writeFile(clientCertificate.keyFile, pair.key)
  const tls = connectionTls({ rootCert, clientCertificate, log: context.log })
  const material = await tls()
  assert.equal(material.roots?.toString(), authority.trustBundle().join(''))
  assert.equal(material.clientCertificate?.certificate.toString(), pair.certificate)
  assert.equal(material.clientCertificate?.key.toString(), pair.key)
  await replaceFile(rootCert, authority.trustBundle().join(''))
  assert.equal(await tls(), material)
  assert.deepEqual(await Promise.all([tls(), tls()]), [material, material])
})

test('another root makes another object', async t => {
  const { authority, rootCert, context } = await setUp(t)
  const tls = connectionTls({ rootCert, log: context.log })
  const material = await tls()
  await replaceFile(rootCert, authority.trustBundle().join('').repeat(2))
  assert.notEqual(await tls(), material)
})

test('only certificates that were parsed are roots: no block with another label, and no text', async t => {
  const { authority, rootCert, context } = await setUp(t)
  const [root = ''] = authority.trustBundle()
  const others = await Promise.all(
    ['X509 CERTIFICATE', 'TRUSTED CERTIFICATE'].map(async label => {
      const other = await CertificateAuthority.open({ clock: new SystemClock(), trustDomain: 'cluster.local' })
      return other.trustBundle().join('').replaceAll('CERTIFICATE', label)
    }),
  )
  for (const pem of [
    root + others.join(''),
    others.join('') + root,
    `subject=CN=root\n${root.replaceAll('\n', '\r\n')}`,
  ]) {
    await replaceFile(rootCert, pem)
    assert.equal((await connectionTls({ rootCert, log: context.log })()).roots?.toString(), root)
    assert.equal((await connectionTls({ rootCert: pem, log: context.log })()).roots?.toString(), root)
  }
})

test('without anything configured it has nothing', async () => {
  assert.deepEqual(await connectionTls({ log: pluginContext().log })(), {})
})

test("the system's roots and PEM are roots without a file", async t => {
  const { authority, context } = await setUp(t)
  const rootCert = authority.trustBundle().join('')
  assert.equal((await connectionTls({ rootCert, log: context.log })()).roots?.toString(), rootCert)
  const system = connectionTls({ rootCert: 'system', log: context.log })
  assert.match((await system()).roots?.toString() ?? '', /-----BEGIN CERTIFICATE-----/)
  assert.equal(await system(), await system())
})

test('a root that was never readable is unavailable with its path, until it is there', async t => {
  const { authority, rootCert, context } = await setUp(t)
  await rm(rootCert)
  const tls = connectionTls({ rootCert, log: context.log })
  await assert.rejects(tls(), isCAError('unavailable', /Cannot read the CA's root .*root\.pem: ENOENT/))
  await writeFile(rootCert, 'nothing')
  await assert.rejects(tls(), isCAError('unavailable', /root\.pem holds no certificate/))
  await replaceFile(rootCert, authority.trustBundle().join(''))
  await tls()
  assert.deepEqual(warningsOf(context), [])
})

test('a root file that breaks later leaves the old root in use, with one warning each time', async t => {
  const { authority, rootCert, context } = await setUp(t)
  const tls = connectionTls({ rootCert, log: context.log })
  const material = await tls()
  for (let time = 1; time <= 2; time++) {
    await replaceFile(rootCert, 'nothing')
    assert.equal(await tls(), material)
    assert.equal(await tls(), material)
    assert.equal(warningsOf(context).length, time)
    assert.match(warningsOf(context)[0] ?? '', /root\.pem holds no certificate.*The old one is used meanwhile/)
    await replaceFile(rootCert, authority.trustBundle().join(''))
    assert.equal(await tls(), material)
  }
})

test('a client certificate is taken when both files are there, and changes with both', async t => {
  const { authority, rootCert, clientCertificate, context } = await setUp(t)
  const tls = connectionTls({ rootCert, clientCertificate, log: context.log })
  assert.equal((await tls()).clientCertificate, undefined)
  const first = await makePair(authority)
  await replaceFile(clientCertificate.certFile, first.certificate)
  assert.equal((await tls()).clientCertificate, undefined)
  assert.match(warningsOf(context)[0] ?? '', /key\.pem is missing: put it beside the other/)
  await replaceFile(clientCertificate.keyFile, first.key)
  const taken = await tls()
  assert.equal(taken.clientCertificate?.key.toString(), first.key)
  const second = await makePair(authority)
  await replaceFile(clientCertificate.keyFile, second.key)
  assert.equal(await tls(), taken)
  assert.match(warningsOf(context)[1] ?? '', /do not belong together.*The old one is used meanwhile/)
  await replaceFile(clientCertificate.certFile, second.certificate)
  assert.equal((await tls()).clientCertificate?.certificate.toString(), second.certificate)
  assert.equal(warningsOf(context).length, 2)
})

const useless: readonly (readonly [string, RegExp])[] = [
  ['', /rootCert "": it is empty/],
  [
    '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
    /rootCert holds a certificate that cannot be parsed/,
  ],
  ['-----BEGIN NOTHING-----', /rootCert holds no certificate/],
]
for (const [rootCert, reason] of useless)
  test(`a rootCert of ${JSON.stringify(rootCert)} is a TypeError`, () => {
    assert.throws(
      () => connectionTls({ rootCert, log: pluginContext().log }),
      (error: Error) => {
        assert.ok(error instanceof TypeError)
        assert.match(error.message, reason)
        return true
      },
    )
  })
