/** SotW over a real socket: what Envoy does, and what Istio's and SPIRE's agents promise it. */
import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { envoyNode, peerNode } from '../../test/peer-node.ts'
import { API, OTHER, startServer, WEB } from '../../test/running-server.ts'
import { namesOf, secretsOf } from '../../test/sds-client.ts'
import { DiscoveryRequest, type DiscoveryResponse } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { SECRET_TYPE_URL } from './response-content.ts'

test('a certificate is answered with its chain and the key that belongs to it', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask(WEB)
  const response = await stream.next()
  assert.equal(response.typeUrl, SECRET_TYPE_URL)
  assert.equal(response.resources[0]?.typeUrl, SECRET_TYPE_URL)
  assert.notEqual(response.nonce, '')
  const secret = secretsOf(response).get(WEB)
  assert.equal(secret?.type?.$case, 'tlsCertificate')
  const { certificateChain, privateKey } = secret.type.value
  const leaf = new X509Certificate(certificateChain?.inlineBytes ?? '')
  assert.equal(leaf.subjectAltName, `URI:${WEB}`)
  assert.ok(leaf.checkPrivateKey(createPrivateKey(privateKey?.inlineBytes ?? '')))
  assert.equal(response.versionInfo, running.source.current({ kind: 'identity', identity: WEB })?.version)
})

test('the bundle is answered as trusted_ca, under the name that was asked for', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask('ROOTCA', 'spiffe://cluster.local')
  const secrets = secretsOf(await stream.next())
  assert.deepEqual([...secrets.keys()].sort(), ['ROOTCA', 'spiffe://cluster.local'])
  for (const { type } of secrets.values()) {
    assert.equal(type?.$case, 'validationContext')
    assert.ok(new X509Certificate(type.value.trustedCa?.inlineBytes ?? '').ca)
  }
})

test('the bundle of another trust domain is answered where it is held', async () => {
  await using running = await startServer()
  running.source.setBundle('other.example')
  const stream = running.connect().sotw()
  stream.ask('spiffe://other.example')
  assert.deepEqual(namesOf(await stream.next()), ['spiffe://other.example'])
  stream.ask('spiffe://third.example')
  assert.deepEqual(namesOf(await stream.next()), [])
})

test('default on the socket of one identity is that identity, answered as default', async () => {
  await using running = await startServer({ identity: API })
  const stream = running.connect().sotw()
  stream.ask('default')
  const secret = secretsOf(await stream.next()).get('default')
  assert.equal(secret?.type?.$case, 'tlsCertificate')
  const leaf = new X509Certificate(secret.type.value.certificateChain?.inlineBytes ?? '')
  assert.equal(leaf.subjectAltName, `URI:${API}`)
})

test('the well-known names come from the configuration', async () => {
  await using running = await startServer({ identity: API }, { names: { default: 'me', root: 'roots' } })
  const stream = running.connect().sotw()
  stream.ask('me', 'roots')
  assert.deepEqual(namesOf(await stream.next()), ['me', 'roots'])
  stream.ask('default', 'ROOTCA')
  assert.deepEqual(namesOf(await stream.next()), [])
})

test('refused names are invalidated where the server is set so, and never in a response with a secret', async () => {
  await using running = await startServer({}, { refusedNames: 'invalidate' })
  const client = running.connect()
  const stream = client.sotw()
  stream.ask('kubernetes://gateway')
  const refusal = await stream.next()
  assert.deepEqual(namesOf(refusal), ['kubernetes://gateway'])
  assert.equal(secretsOf(refusal).get('kubernetes://gateway')?.type, undefined)
  // As Envoy answers it; it asks once.
  stream.nack(refusal, 'Proto constraint validation failed', 'kubernetes://gateway')
  await client.settled()
  assert.equal(stream.queued, 0)
  stream.ask('kubernetes://gateway', WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  stream.ask('kubernetes://gateway', OTHER, WEB)
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  const delta = client.delta()
  delta.subscribe('kubernetes://gateway')
  assert.deepEqual((await delta.next()).removedResources, ['kubernetes://gateway'])
})

for (const [minor, isRemoved] of [
  [36, false],
  [37, true],
] as const)
  test(`to Envoy 1.${minor} a refused name is ${isRemoved ? 'a resource whose time is over' : 'an invalid secret'}`, async () => {
    await using running = await startServer({}, { refusedNames: 'invalidate' })
    const stream = running.connect().sotw()
    const type = (response: DiscoveryResponse) => response.resources.map(({ typeUrl }) => typeUrl.split('.').at(-1))
    stream.send({ node: envoyNode('envoy', minor), resourceNames: [OTHER] })
    assert.deepEqual(type(await stream.next()), [isRemoved ? 'Resource' : 'Secret'])
    stream.send({ resourceNames: [OTHER, 'kubernetes://gateway'] })
    assert.deepEqual(type(await stream.next()), ['Secret', 'Secret'])
  })

test('an ACK is not answered, and a name that it adds is answered alone', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  const first = await stream.next()
  stream.ack(first, WEB)
  await client.settled()
  assert.equal(stream.queued, 0)
  stream.ack(first, WEB, 'ROOTCA')
  const second = await stream.next()
  assert.deepEqual(namesOf(second), ['ROOTCA'])
  stream.ack(second, WEB, 'ROOTCA')
  await client.settled()
  assert.equal(stream.queued, 0)
  assert.equal(running.reports.get(WEB)?.filter(event => event.kind === 'acked').length, 1)
})

test('an ACK reports how long it took, of each response its own', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  const first = await stream.next()
  await running.source.clock.advance(250)
  stream.ack(first, WEB)
  await client.settled()
  await running.source.issue(WEB)
  const second = await stream.next()
  stream.ack(second, WEB)
  await client.settled()
  const acks = running.reports.get(WEB)?.filter(report => report.kind === 'acked')
  assert.deepEqual(
    acks?.map(({ lagMs }) => lagMs),
    [250, 0],
  )
})

test('a fresh request without a nonce is answered, though the same was answered before', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask(WEB)
  stream.ask(WEB)
  const answers = [await stream.next(), await stream.next()]
  assert.deepEqual(answers.map(namesOf), [[WEB], [WEB]])
  assert.notEqual(answers[0]?.nonce, answers[1]?.nonce)
  stream.ask('ROOTCA')
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
})

test('repeated names are answered once, and another order is not a change', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB, API, WEB)
  const response = await stream.next()
  assert.equal(response.resources.length, 2)
  stream.ack(response, API, WEB, API)
  await client.settled()
  assert.equal(stream.queued, 0)
})

test('streams get only what they asked for, and opening one does not disturb another', async () => {
  await using running = await startServer()
  const client = running.connect()
  const certificates = client.sotw()
  const roots = client.sotw()
  certificates.ask(WEB)
  const first = await certificates.next()
  certificates.ack(first, WEB)
  roots.ask('ROOTCA')
  assert.deepEqual(namesOf(first), [WEB])
  assert.deepEqual(namesOf(await roots.next()), ['ROOTCA'])
  await client.settled()
  assert.equal(certificates.queued, 0)
})

test('a new certificate is pushed to each stream that has its name, on every connection, and to no other', async () => {
  await using running = await startServer()
  const clients = [running.connect(), running.connect()]
  const streams = clients.map(client => client.sotw())
  for (const stream of streams) {
    stream.ask(WEB)
    stream.ack(await stream.next(), WEB)
  }
  const roots = running.connect().sotw()
  roots.ask('ROOTCA')
  await roots.next()
  const { version } = await running.source.issue(WEB)
  for (const stream of streams) assert.equal((await stream.next()).versionInfo, version)
  for (const client of clients) await client.settled()
  assert.equal(roots.queued, 0)
})

test('a version that the peer has is not pushed again', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask('ROOTCA')
  await stream.next()
  running.source.setBundle()
  await client.settled()
  assert.equal(stream.queued, 0)
})

test('a NACK is not answered, is recorded without what it quotes, and the next version is still pushed', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  const rejected = await stream.next()
  stream.nack(rejected, 'Failed to load it: -----BEGIN PRIVATE KEY-----\nMIGHAgEA', WEB)
  await client.settled()
  assert.equal(stream.queued, 0)
  const { version } = await running.source.issue(WEB)
  assert.equal((await stream.next()).versionInfo, version)
  const nacked = running.reports.get(WEB)?.find(event => event.kind === 'nacked')
  assert.equal(nacked?.version, rejected.versionInfo)
  assert.match(nacked.detail, /^Failed to load it: \.\.\. \(\d+ characters, sha256 [0-9a-f]{8}\)$/)
})

test('an ACK of an older nonce is never answered, whatever it asks for, and is counted', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  const older = await stream.next()
  await running.source.issue(WEB)
  const newest = await stream.next()
  stream.ack(older, WEB, 'ROOTCA')
  stream.nack(older, 'no', WEB, 'ROOTCA')
  await client.settled()
  assert.equal(stream.queued, 0)
  assert.equal(
    running.events.filter(event => event.kind === 'stream-report' && event.report.kind === 'stale').length,
    2,
  )
  stream.ack(newest, WEB, 'ROOTCA')
  assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
})

test('pushes that overlap their ACKs end in quiet', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  stream.ack(await stream.next(), WEB)
  const issued = [await running.source.issue(WEB), await running.source.issue(WEB), await running.source.issue(WEB)]
  let last = await stream.next()
  for (;;) {
    stream.ack(last, WEB)
    await client.settled()
    if (stream.queued === 0) break
    last = await stream.next()
  }
  assert.equal(last.versionInfo, issued.at(-1)?.version)
})

test('a stream whose first request has an old nonce and version is answered in full, the old stream open or not', async () => {
  await using running = await startServer()
  const old = running.connect().sotw()
  old.ask(WEB)
  const { versionInfo, nonce: responseNonce } = await old.next()
  const stream = running.connect().sotw()
  stream.send({ resourceNames: [WEB], versionInfo, responseNonce })
  assert.deepEqual(namesOf(await stream.next()), [WEB])
  old.cancel()
  await old.status
  const another = running.connect().sotw()
  another.send({ resourceNames: [WEB], versionInfo, responseNonce })
  assert.deepEqual(namesOf(await another.next()), [WEB])
})

test('an empty list after an ACK unsubscribes without an answer, and nothing is pushed any more', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB)
  stream.ack(await stream.next())
  await client.settled()
  assert.equal(running.source.subscribers, 0)
  await running.source.issue(WEB)
  await client.settled()
  assert.equal(stream.queued, 0)
})

test('a name that is left out is unsubscribed', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.sotw()
  stream.ask(WEB, API)
  stream.ack(await stream.next(), API)
  await client.settled()
  await running.source.issue(WEB)
  await running.source.issue(API)
  assert.deepEqual(namesOf(await stream.next()), [API])
  await client.settled()
  assert.equal(stream.queued, 0)
})

test('the version of several secrets does not depend on their order', async () => {
  await using running = await startServer()
  const stream = running.connect().sotw()
  stream.ask(WEB, API)
  const { versionInfo } = await stream.next()
  stream.ask(API, WEB)
  assert.equal((await stream.next()).versionInfo, versionInfo)
  assert.match(versionInfo, /^[0-9a-f]{64}$/)
})

test('the node is needed on the first request only', async () => {
  await using running = await startServer()
  const client = running.connect()
  for (const node of [undefined, peerNode('')]) {
    const refused = client.sotw()
    refused.send({ node, resourceNames: [WEB] })
    const { code, details } = await refused.status
    assert.equal(code, 3)
    assert.match(details, /missing node information/)
  }
  const stream = client.sotw()
  stream.ask(WEB)
  stream.ack(await stream.next(), WEB, API)
  assert.deepEqual(namesOf(await stream.next()), [API])
  assert.equal(running.streams()[0]?.node, 'test-node')
})

test('the first request of a real Envoy is answered, and so are the ACKs that it sends then', async () => {
  await using running = await startServer()
  const client = running.connect()
  const stream = client.raw()
  stream.write(await readFile(new URL('../../test/fixtures/first-request-ROOTCA.bin', import.meta.url)))
  const response = await stream.next()
  assert.deepEqual(namesOf(response), ['ROOTCA'])
  const { versionInfo, nonce: responseNonce, typeUrl } = response
  const ack = {
    versionInfo,
    responseNonce,
    typeUrl,
    resourceNames: ['ROOTCA'],
    node: undefined,
    errorDetail: undefined,
  }
  stream.write(Buffer.from(DiscoveryRequest.encode(ack).finish()))
  await client.settled()
  assert.equal(stream.queued, 0)
  const { peer } = await running.event('stream-report', ({ report }) => report.kind === 'acked')
  assert.match(peer, /^node "sidecar~10\.0\.0\.1~pay/)
  await running.source.rotateRoot()
  assert.notEqual((await stream.next()).versionInfo, versionInfo)
})

test('a stream that ends, by either side, leaves no subscription', async () => {
  await using running = await startServer()
  const client = running.connect()
  const [ended, cancelled, refused] = [client.sotw(), client.sotw(), client.sotw()]
  for (const stream of [ended, cancelled, refused]) {
    stream.ask(WEB, 'ROOTCA')
    await stream.next()
  }
  assert.equal(running.source.subscribers, 6)
  ended.end()
  assert.equal((await ended.status).code, 0)
  cancelled.cancel()
  refused.send({ typeUrl: 'type.googleapis.com/envoy.config.listener.v3.Listener' })
  assert.equal((await refused.status).code, 3)
  await client.settled()
  assert.equal(running.source.subscribers, 0)
  assert.deepEqual(running.streams(), [])
})
