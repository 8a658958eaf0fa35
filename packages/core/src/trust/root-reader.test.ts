import assert from 'node:assert/strict'
import type { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import 'reflect-metadata'
import { BasicConstraintsExtension, X509CertificateGenerator } from '@peculiar/x509'
import { garbleNotBefore } from '../../test/garble-date.ts'
import { Bench } from '../../test/manager-bench.ts'
import type { RootListener } from '../contract/root-source.ts'
import { makeIssuer, type TestIssuer } from '../testing/test-ca.ts'
import { nodeCertificateVerifier } from '../x509/node-chain-reader.ts'
import { RootReader } from './root-reader.ts'

const NOW = Date.UTC(2026, 0, 1)

test('a root with a date that cannot be read is refused, and nothing waits for that date', async () => {
  const { pem } = await makeIssuer('CN=garbled', NOW)
  const read = await new RootReader().read([garbleNotBefore(pem)], NOW)
  assert.deepEqual([read.roots, read.validFrom], [[], undefined])
  assert.match(read.rejected.join(), /^root with serial [0-9A-F]+ has a date that cannot be read$/)
})

test('the list that was read last is known at once, while it is the same and valid', async () => {
  const [one, two] = await Promise.all([makeIssuer('CN=one', NOW), makeIssuer('CN=two', NOW)])
  const reader = new RootReader()
  const list = [one.pem]
  assert.equal(reader.sameAsLast(list, NOW), undefined)
  const read = await reader.read(list, NOW)
  assert.equal(reader.sameAsLast([one.pem], NOW), read)
  const [root] = read.roots
  assert.equal(reader.sameAsLast([one.pem], root?.notAfter ?? 0), undefined)
  list[0] = two.pem
  assert.equal(reader.sameAsLast(list, NOW), undefined)
  assert.equal(reader.sameAsLast([one.pem, two.pem], NOW), undefined)
  assert.equal((await reader.read([two.pem, 'no root'], NOW)).rejected.length, 1)
  assert.equal(reader.sameAsLast([two.pem, 'no root'], NOW), undefined)
})

test("a root that Envoy's library cannot read is left out alone, whoever lists it, and nothing else fails for it", async () => {
  const long = await withSerialNumber(await makeIssuer('CN=long', NOW), '7a'.repeat(22))
  const verifier = {
    ...nodeCertificateVerifier,
    readsRoot: ({ serialNumber }: X509Certificate) => !serialNumber.startsWith('7A7A'),
  }
  const { roots, rejected } = await new RootReader(verifier).read([long], NOW)
  assert.deepEqual([roots.length, rejected.length], [0, 1])
  await using bench = await Bench.create({ verifier })
  const { ca, manager } = bench
  ca.trustBundle = () => Promise.resolve([...ca.roots, long])
  await bench.add('spiffe://cluster.local/ns/default/sa/web')
  let listener: RootListener | undefined
  const open = (opened: RootListener) => {
    listener = opened
    return { [Symbol.dispose]() {} }
  }
  const { pem: other } = await makeIssuer('CN=other', NOW)
  const opened = manager.useRootSources([{ trustDomain: 'cluster.local', name: 'roots.pem', open }])
  listener?.listed([other])
  await opened
  listener?.listed([other, long])
  await bench.until('roots-rejected', 1)
  await ca.addRoot()
  await bench.until('roots-changed', 3)
  assert.equal(bench.last('roots-changed').roots, 3)
})

async function withSerialNumber({ subject, keys }: TestIssuer, serialNumber: string): Promise<string> {
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber,
    name: subject,
    notBefore: new Date(NOW),
    notAfter: new Date(NOW + 86_400_000),
    keys,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
  })
  return certificate.toString('pem')
}
