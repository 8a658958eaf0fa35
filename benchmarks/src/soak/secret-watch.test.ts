import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { nodeCertificateVerifier } from '@livery/core'
import type { IssuedCertificate, SpiffeId } from '@livery/core/plugin'
import { type CertificateOverrides, FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import type { ReceivedSecret } from './discovery-messages.ts'
import { SecretWatch } from './secret-watch.ts'

const identity: SpiffeId = 'spiffe://cluster.local/ns/soak/sa/sa-0'
const TTL_MS = 60_000

async function setUp() {
  const clock = new FakeClock()
  const ca = await TestCA.create(clock)
  const watch = new SecretWatch(nodeCertificateVerifier)
  const roots = (): ReceivedSecret => ({ kind: 'roots', name: 'ROOTCA', pem: ca.roots.join('') })
  watch.take(roots(), 'ROOTCA', clock.now())
  const issue = async (overrides: CertificateOverrides = {}, name: SpiffeId = identity): Promise<ReceivedSecret> => {
    const key = await new TestKeyGenerator().generate({ type: 'ecdsa-p256', identity: name })
    const request = {
      identity: name,
      ttlSeconds: TTL_MS / 1_000,
      signal: new AbortController().signal,
      csr: async () => ({ der: key.csrDer, pem: toPem(key.csrDer) }),
    }
    const { chain }: IssuedCertificate = await ca.sign(request, overrides)
    return { kind: 'certificate', name, chain: chain.join(''), privateKey: Buffer.from(key.privateKeyPem) }
  }
  const failures = () => watch.report(clock.now()).failures.join('\n')
  return { clock, ca, watch, roots, issue, failures }
}

function toPem(der: Uint8Array): string {
  return `-----BEGIN CERTIFICATE REQUEST-----\n${Buffer.from(der).toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`
}

test('a good certificate and its good successor are not a failure', async () => {
  const { clock, watch, issue } = await setUp()
  watch.take(await issue(), identity, clock.now())
  await clock.advance(35_000)
  watch.take(await issue(), identity, clock.now())
  watch.scan(clock.now())
  assert.deepEqual(watch.report(0), {
    at: 0,
    seen: 3,
    served: 1,
    renewals: 1,
    leastLeftMs: 25_000,
    failures: [],
    failureCount: 0,
  })
  assert.equal(watch.report(0).renewals, 0, 'a report begins at zero')
})

describe('a failure is reported:', () => {
  test('the name of another', async () => {
    const { clock, watch, issue, failures } = await setUp()
    watch.take(await issue(), 'spiffe://cluster.local/ns/soak/sa/sa-1', clock.now())
    assert.match(failures(), /sa-1: got .*sa-0/)
  })

  test('the SAN of another', async () => {
    const { clock, watch, issue, failures } = await setUp()
    watch.take(await issue({ names: [{ type: 'url', value: `${identity}x` }] }), identity, clock.now())
    assert.match(failures(), /sa-0x instead of the identity asked for/)
  })

  test('the key of another', async () => {
    const { clock, watch, issue, failures } = await setUp()
    const [one, other] = [await issue(), await issue()]
    assert.ok(one.kind === 'certificate' && other.kind === 'certificate')
    watch.take({ ...one, privateKey: other.privateKey }, identity, clock.now())
    assert.match(failures(), /private key/)
  })

  test('a certificate that has ended', async () => {
    const { clock, watch, issue, failures } = await setUp()
    const secret = await issue()
    await clock.advance(TTL_MS + 1_000)
    watch.take(secret, identity, clock.now())
    assert.match(failures(), /has expired/)
  })

  test('a certificate that is not valid yet', async () => {
    const { clock, watch, issue, failures } = await setUp()
    watch.take(await issue({ notBefore: clock.now() + 5_000 }), identity, clock.now())
    assert.match(failures(), /is valid from .* on only/)
  })

  test('a root that is not served', async () => {
    const { clock, ca, watch, issue, failures } = await setUp()
    await ca.addRoot()
    watch.take(await issue(), identity, clock.now())
    assert.match(failures(), /does not lead to/)
  })

  test('the same certificate again', async () => {
    const { clock, watch, issue, failures } = await setUp()
    const secret = await issue()
    watch.take(secret, identity, clock.now())
    watch.take(secret, identity, clock.now())
    assert.match(failures(), /came a second time/)
  })

  test('a gap, once, as soon as it is seen', async () => {
    const { clock, watch, issue, failures } = await setUp()
    watch.take(await issue(), identity, clock.now())
    await clock.advance(TTL_MS + 500)
    watch.scan(clock.now())
    watch.scan(clock.now())
    assert.match(failures(), /ended at .*, and none has come since/)
    watch.take(await issue(), identity, clock.now())
    const { failureCount, leastLeftMs } = watch.report(0)
    assert.equal(failureCount, 1)
    assert.ok((leastLeftMs ?? 0) < 0)
  })

  test('a gap between two looks', async () => {
    const { clock, watch, issue, failures } = await setUp()
    watch.take(await issue(), identity, clock.now())
    await clock.advance(TTL_MS + 500)
    watch.take(await issue(), identity, clock.now())
    assert.match(failures(), /had none for \d+ ms/)
  })
})
