import assert from 'node:assert/strict'
import { test } from 'node:test'
import { certificateTable } from './certificate-table.ts'
import type { Listed } from './listed-certificates.ts'

const WEB = 'spiffe://cluster.local/ns/a-rather-long-namespace/sa/a-service-account'
const LEAF = { pem: '', serialNumber: '03', validFrom: '', expirationTime: '1970-01-02T00:00:00.000Z' }
const REASON = `unavailable: Cannot ask the CA: connect ECONNREFUSED 10.96.12.40:15012. ${'x'.repeat(90)} Start it.`
const CERTIFICATES: readonly Listed[] = [
  {
    identity: WEB,
    state: 'Available',
    certChain: [LEAF],
    rootCerts: [],
    renewAt: '1970-01-01T12:00:00.000Z',
    lastsUntil: '1970-01-03T06:00:00.000Z',
    reason: REASON,
  },
  { name: 'file-root:/etc/certs/root.pem', state: 'Available' },
]

test('at every width from 20 columns on each line fits, and all of each fact is there', () => {
  for (let columns = 20; columns <= 220; columns++) {
    const table = certificateTable(CERTIFICATES, 0, columns)
    for (const line of table.split('\n')) assert.ok(line.length <= columns, `${columns}: ${line}`)
    const text = table.replace(/\s+/g, '')
    for (const fact of [WEB, REASON, 'Available', 'in24h00m', 'in12h00m', 'file-root:/etc/certs/root.pem'])
      assert.ok(text.includes(fact.replace(/\s+/g, '')), `${columns}: ${fact}`)
  }
})

test('where no table fits, an identity is a block: its name, its facts, its reason', () => {
  const [line = '', facts, reason] = certificateTable(CERTIFICATES, 0, 79).split('\n')
  assert.equal(line, WEB)
  assert.equal(facts, '  Available, expires in 24h00m, lasts 2d6h, rotation in 12h00m')
  assert.match(reason ?? '', /^ {2}unavailable: Cannot ask the CA/)
})
