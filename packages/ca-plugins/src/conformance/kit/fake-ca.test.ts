/** The fake CA: its switches, and its clock. */
import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import type { SpiffeId } from '@livery/core/plugin'
import { FakeCA } from './fake-ca.ts'
import { createKeyMaterial } from './key-material.ts'
import { MovableClock } from './movable-clock.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'

async function setUp(t: TestContext) {
  const clock = new MovableClock()
  const ca = await FakeCA.create({ clock })
  t.after(() => {
    ca[Symbol.dispose]()
    clock[Symbol.dispose]()
  })
  const { csr } = await createKeyMaterial(WEB, 'ecdsa-p256')
  return { ca, clock, csr }
}

test('a CSR as PEM and as DER is signed for the identity that it names', async t => {
  const { ca, csr } = await setUp(t)
  for (const form of [csr.pem, csr.der]) {
    const answer = await ca.answer({ csr: form })
    assert.ok(answer.kind === 'issued')
    assert.equal(new X509Certificate(answer.chain[0] ?? '').subjectAltName, `URI:${WEB}`)
  }
})

test('a text that is not a CSR is refused as invalid-csr', async t => {
  const { ca } = await setUp(t)
  for (const csr of ['', 'no PEM', Buffer.from('no DER')]) {
    const answer = await ca.answer({ csr })
    assert.ok(answer.kind === 'refused' && answer.code === 'invalid-csr', answer.kind)
  }
})

test('a token other than the one it waits for is refused as unauthenticated', async t => {
  const { ca, csr } = await setUp(t)
  ca.token = 'right'
  const wrong = await ca.answer({ csr: csr.pem, token: 'wrong' })
  assert.ok(wrong.kind === 'refused' && wrong.code === 'unauthenticated')
  assert.equal((await ca.answer({ csr: csr.pem, token: 'right' })).kind, 'issued')
})

test('requests that hang are answered when they are released, those that are late when their time has come', async t => {
  const { ca, clock, csr } = await setUp(t)
  ca.fault = { kind: 'hang' }
  const hanging = ca.answer({ csr: csr.pem })
  await ca.arrived(1)
  ca.release()
  assert.equal((await hanging).kind, 'issued')
  ca.fault = { kind: 'delay', ms: 60_000 }
  const late = ca.answer({ csr: csr.pem })
  await clock.advance(60_000)
  assert.equal((await late).kind, 'issued')
  assert.equal(clock.waiting, 0)
})

test('a pending request is decided once', async t => {
  const { ca, csr } = await setUp(t)
  ca.fault = { kind: 'pending' }
  const answer = await ca.answer({ csr: csr.pem })
  assert.ok(answer.kind === 'pending')
  assert.equal((await ca.collect(answer.id)).kind, 'pending')
  ca.decide('approve')
  ca.decide('deny')
  assert.equal((await ca.collect(answer.id)).kind, 'issued')
  assert.equal((await ca.collect('unknown')).kind, 'refused')
})

test('a key that it brings belongs to its certificate', async t => {
  const { ca } = await setUp(t)
  const { chain, privateKey } = await ca.bring(WEB)
  const leaf = new X509Certificate(chain[0] ?? '')
  assert.ok(leaf.checkPrivateKey(createPrivateKey(Buffer.from(privateKey))))
})

test('a clock that is set forward runs what is due, in order, and nothing that was disposed', async t => {
  const { clock } = await setUp(t)
  const ran: string[] = []
  const now = clock.now()
  clock.at(now + 7_200_000, () => ran.push('second'))
  clock.at(now + 3_600_000, () => ran.push('first'))
  clock.at(now + 3_600_000, () => ran.push('never'))[Symbol.dispose]()
  await clock.advance(3_600_000)
  assert.deepEqual(ran, ['first'])
  await clock.advance(3_600_000)
  assert.deepEqual(ran, ['first', 'second'])
})
