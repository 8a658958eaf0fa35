import 'reflect-metadata'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Extension, type X509CrlEntryParams, X509CrlGenerator, X509CrlReason } from '@peculiar/x509'
import { makeIssuer } from '../testing/test-ca.ts'
import { readCrls, withoutZeros } from './crl.ts'

const START = Date.UTC(2026, 0, 1)
/** deltaCRLIndicator with the number 1, critical. */
const DELTA = new Extension('2.5.29.27', true, Buffer.from('020101', 'hex'))

async function listOf(entries: readonly X509CrlEntryParams[], extensions: readonly Extension[] = []) {
  const { key } = await makeIssuer('CN=a', START)
  const crl = await X509CrlGenerator.create({
    issuer: 'CN=a',
    thisUpdate: new Date(START),
    entries: [...entries],
    extensions: [...extensions],
    signingKey: key,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
  })
  const pem = `-----BEGIN X509 CRL-----\n${Buffer.from(crl.rawData).toString('base64')}\n-----END X509 CRL-----\n`
  const [list] = readCrls(pem)
  assert.ok(list)
  return list
}

const entry = (serialNumber: string, reason = X509CrlReason.keyCompromise) => ({
  serialNumber,
  revocationDate: new Date(START),
  reason,
})

test('a list names its serial numbers, however many bytes they have', async () => {
  const list = await listOf(['01', '80', '7fff', `4a${'00'.repeat(18)}`].map(each => entry(each)))
  for (const serial of ['1', '80', '0080', '7fff', `4a${'00'.repeat(18)}`])
    assert.ok(list.names(withoutZeros(serial)), serial)
  for (const serial of ['2', '8000', 'ff', '7f', '']) assert.ok(!list.names(serial), serial)
})

test('an entry that takes a revocation back counts in a list of changes, where alone it may be', async () => {
  const entries = [entry('4a01'), entry('4a02', X509CrlReason.removeFromCRL)]
  const [whole, changes] = [await listOf(entries), await listOf(entries, [DELTA])]
  assert.ok(whole.names('4a01') && whole.names('4a02'))
  assert.ok(changes.names('4a01') && !changes.names('4a02'))
})

test('a text has at most a hundred lists', async () => {
  const { pem } = await listOf([])
  assert.equal(readCrls(pem.repeat(100)).length, 100)
  assert.throws(() => readCrls(pem.repeat(101)), { message: /it has 101 lists, more than 100/ })
})
