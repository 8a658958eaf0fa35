import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { SystemClock } from '@livery/core/plugin'
import { isCAError } from '../../test/citadel-setup.ts'
import { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import { workloadRequest } from '../testing/workload-request.ts'
import { ChainReader } from './certificate-chain.ts'

let leaf: string
let intermediate: string
let root: string
let otherRoot: string

before(async () => {
  const authority = await CertificateAuthority.open({
    clock: new SystemClock(),
    trustDomain: 'cluster.local',
    intermediate: true,
  })
  await authority.addRoot()
  const { identity, csrDer } = await workloadRequest('spiffe://cluster.local/ns/default/sa/web')
  const signed = await authority.sign({ identity, csr: csrDer, ttlSeconds: 60 })
  ;[leaf = '', intermediate = ''] = signed.chain
  root = signed.root
  otherRoot = authority.trustBundle()[1] ?? ''
})

const reader = new ChainReader(true)
const answer = { action: 'get a certificate', remedy: 'Check the CA' }

function split(...certChain: string[]) {
  return reader.read(certChain, answer)
}

test('leaf, intermediate and root are distinguished', () => {
  assert.deepEqual(split(leaf, intermediate, root), { chain: [leaf, intermediate], roots: [root] })
})

test('the last element may hold several roots', () => {
  assert.deepEqual(split(leaf, intermediate, root + otherRoot), {
    chain: [leaf, intermediate],
    roots: [root, otherRoot],
  })
})

test('the first element may hold the leaf with its intermediate', () => {
  assert.deepEqual(split(leaf + intermediate, root), { chain: [leaf, intermediate], roots: [root] })
})

test('a root that is not last, or twice there, is one root', () => {
  assert.deepEqual(split(leaf, root, intermediate, root), { chain: [leaf, intermediate], roots: [root] })
})

test('without a self-signed certificate the last element is the roots, as for Istio', () => {
  assert.deepEqual(split(leaf, intermediate), { chain: [leaf], roots: [intermediate] })
})

test('carriage returns, text around the blocks and a missing newline at the end do not matter', () => {
  const dressed = `subject=web\r\n${leaf.replaceAll('\n', '\r\n')}`
  assert.deepEqual(split(dressed, root.trimEnd()), { chain: [leaf], roots: [root] })
})

test('a wrong label, DER, or a truncated block is not a certificate', () => {
  const der = Buffer.from(leaf.replaceAll(/-----.*-----|\s/g, ''), 'base64').toString('latin1')
  for (const element of ['', der, leaf.replaceAll('CERTIFICATE', 'PUBLIC KEY'), leaf.slice(0, 200)])
    assert.throws(() => split(element, root), isCAError('bad-response', /no PEM certificate in element 0/))
})

test('a chain of more than ten certificates is refused, however it is packed', () => {
  assert.throws(() => split(leaf + intermediate.repeat(10), root), isCAError('bad-response'))
})

test('a certificate whose DER is damaged anywhere is refused or passed on, never a crash', () => {
  const der = Buffer.from(leaf.replaceAll(/-----.*-----|\s/g, ''), 'base64')
  for (let i = 0; i < der.length; i += 7) {
    const damaged = Buffer.from(der)
    damaged[i] = (damaged[i] ?? 0) ^ 0xff
    const pem = `-----BEGIN CERTIFICATE-----\n${damaged.toString('base64')}\n-----END CERTIFICATE-----\n`
    try {
      assert.equal(split(pem, root).chain.length, 1)
    } catch (error) {
      isCAError('bad-response')(error)
    }
  }
})

test('certificates that are too many are refused by their number, before one is parsed', () => {
  const junk = '-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n'.repeat(1_000)
  const tooMany = isCAError('bad-response', /its answer has 2002 certificates, more than 10 and 100 roots/)
  assert.throws(() => split(leaf, junk, junk, root), tooMany)
})

test('issuers that are remembered change nothing: not for another leaf, for other issuers, or for a first element with more', () => {
  const remembering = new ChainReader(true)
  const read = (...elements: string[]) => remembering.read(elements, answer)
  const expected = { chain: [leaf, intermediate], roots: [root] }
  for (let round = 0; round < 3; round++) {
    assert.deepEqual(read(leaf, intermediate, root), expected)
    assert.deepEqual(read(`text\r\n${leaf}`, intermediate, root), expected)
    assert.deepEqual(read(leaf + intermediate, intermediate, root), {
      chain: [leaf, intermediate, intermediate],
      roots: [root],
    })
    assert.deepEqual(read(leaf, intermediate, root + otherRoot), {
      chain: [leaf, intermediate],
      roots: [root, otherRoot],
    })
    assert.throws(() => read('no certificate', intermediate, root), /has no PEM certificate in element 0/)
    assert.throws(() => read('x'.repeat(65_537), intermediate, root), /has an element of 65537 characters/)
  }
})
