import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  type CAChange,
  CAError,
  type CertificateRequest,
  derToPem,
  type IssuedCertificate,
  type SpiffeId,
} from '@livery/core/plugin'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { writeSet } from '../../../test/mounted-files.ts'
import { FakeCA } from '../../conformance/index.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { WellKnownFiles } from './well-known.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const keys = new TestKeyGenerator()

function requestFor(identity: SpiffeId): CertificateRequest {
  const csr = async () => {
    const { csrDer } = await keys.generate({ type: 'ecdsa-p256', identity, format: 'pkcs8' })
    return { der: csrDer, pem: derToPem(csrDer, 'CERTIFICATE REQUEST') }
  }
  return { identity, ttlSeconds: 3_600, signal: new AbortController().signal, csr }
}

function identityIn(answer: IssuedCertificate | CAError | undefined): string | undefined {
  if (answer instanceof CAError || !answer) return answer?.code
  const { subjectAltName } = new X509Certificate(answer.chain[0] ?? '')
  return `${subjectAltName?.slice('URI:'.length)} ${answer.privateKey ? 'from files' : 'signed'}`
}

async function start(t: TestContext) {
  const clock = new FakeClock()
  const folder = join(temporaryFolder(t), 'certs')
  mkdirSync(folder)
  const mounted = await FakeCA.create({ clock })
  const ca = await TestCA.create(clock)
  const files = new WellKnownFiles(ca, [folder], pluginContext({ clock }))
  t.after(() => files[Symbol.asyncDispose]())
  return { clock, folder, mounted, ca, files }
}

test('a pair that is broken is not replaced by one of the CA, one that has ended or was removed is', async t => {
  const { clock, folder, mounted, files } = await start(t)
  writeSet(folder, await mounted.bring(WEB))
  assert.equal(identityIn(await files.issue(requestFor(WEB))), `${WEB} from files`)
  truncateSync(join(folder, 'key.pem'))
  const broken = files.issue(requestFor(WEB))
  const isOver = broken.then(
    () => true,
    () => true,
  )
  while (!(await Promise.race([isOver, clock.advance(50).then(() => false)])));
  await assert.rejects(broken, { code: 'bad-response' })
  await clock.advance(3_700_000)
  assert.equal(identityIn(await files.issue(requestFor(WEB))), `${WEB} signed`)
  writeSet(folder, await mounted.bring(WEB))
  assert.equal(identityIn(await files.issue(requestFor(WEB))), `${WEB} from files`)
  rmSync(folder, { recursive: true })
  assert.equal(identityIn(await files.issue(requestFor(WEB))), `${WEB} signed`)
})

test('files that appear are reported once for their identity, and changes of the CA as they come', async t => {
  const { clock, folder, mounted, ca, files } = await start(t)
  const changes: CAChange[] = []
  files.subscribe(change => changes.push(change))
  writeSet(folder, await mounted.bring(WEB))
  while (changes.length === 0) await clock.advance(1_000)
  await clock.advance(300_000)
  assert.deepEqual(changes, [{ kind: 'certificates', identities: [WEB] }])
  await ca.addRoot()
  assert.deepEqual(changes.at(-1), { kind: 'roots' })
})
