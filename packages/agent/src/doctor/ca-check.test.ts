/** The check of the certificate that `livery doctor` asks for. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { parseSpiffeId } from '@livery/core/plugin'
import { FakeClock, makeIssuer } from '@livery/core/testing'
import { checkAnswer } from './ca-check.ts'

test('a key that the source brought is wiped, with roots to check it against and without', async () => {
  const clock = new FakeClock()
  const root = await makeIssuer('CN=root', clock.now())
  for (const roots of [[], [root.pem]]) {
    const privateKey = randomBytes(100)
    const { state } = checkAnswer('file-mount', {
      identity: { id: parseSpiffeId('spiffe://cluster.local/ns/default/sa/web') },
      issued: { chain: [root.pem], privateKey },
      roots,
      publicKeyDer: new Uint8Array(),
      at: clock.now(),
      groups: new Set(),
    })
    assert.equal(state, roots.length === 0 ? 'ok' : 'wrong')
    assert.deepEqual(privateKey, Buffer.alloc(100))
  }
})
