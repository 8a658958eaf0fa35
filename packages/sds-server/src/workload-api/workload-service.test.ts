/** The SPIFFE Workload API over a real socket: who gets what, and when. */
import assert from 'node:assert/strict'
import { createPrivateKey } from 'node:crypto'
import { test } from 'node:test'
import { Metadata, status } from '@grpc/grpc-js'
import { CertificateSecret, type Receipts, type TrustBundleSecret } from '@livery/core'
import { derToPem, type SpiffeId } from '@livery/core/plugin'
import { MemoryDirectory } from '../../test/memory-directory.ts'
import { MemorySource } from '../../test/memory-source.ts'
import { API, NEVER_ISSUED, OTHER, type RunningServer, startServer, WEB } from '../../test/running-server.ts'
import { certificatesOf, securityHeader, verified, WorkloadClient } from '../../test/workload-client.ts'
import type { X509SVIDResponse } from '../gen/spiffe/workload/workload.ts'
import type { SocketConfig } from '../sds-socket.ts'

/** A server and a client on its socket, which both end with the test. */
async function start(socket: Partial<SocketConfig> = {}, options: Parameters<typeof startServer>[1] = {}) {
  const running = await startServer(socket.allow ? socket : { identity: WEB, ...socket }, options)
  const client = new WorkloadClient(running.path)
  return {
    running,
    client,
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]()
      await running[Symbol.asyncDispose]()
    },
  }
}

const shared = (...allow: readonly string[]): Partial<SocketConfig> => ({
  allow,
  workloadApi: true,
})

const idsOf = ({ svids }: X509SVIDResponse) => svids.map(({ spiffeId }) => spiffeId)

function serialOf(response: X509SVIDResponse): string {
  const [svid] = response.svids
  assert.ok(svid)
  return verified(svid).leaf.serialNumber
}

function change({ server, path }: RunningServer, access: { readonly allow?: readonly string[] }): void {
  server.prepareAccess([{ path, ...access }])()
}

test('the socket of one identity hands it out: a chain, its key as PKCS#8, and a bundle that verifies it', async () => {
  await using api = await start()
  const { svids, federatedBundles, crl } = await api.client.svids().next()
  const [svid, ...others] = svids
  assert.ok(svid)
  assert.deepEqual([svid.spiffeId, others, federatedBundles, crl], [WEB, [], {}, []])
  const { leaf, isVerified } = verified(svid)
  assert.equal(leaf.subjectAltName, `URI:${WEB}`)
  assert.ok(isVerified)
  assert.ok(leaf.checkPrivateKey(createPrivateKey({ key: svid.x509SvidKey, format: 'der', type: 'pkcs8' })))
})

test('each renewal and each change of the roots is pushed, always with everything', async () => {
  await using api = await start()
  const { source } = api.running
  const [svids, bundles] = [api.client.svids(), api.client.bundles()]
  const first = await svids.next()
  assert.deepEqual(Object.keys((await bundles.next()).bundles), ['spiffe://cluster.local'])
  await source.issue(WEB)
  const renewed = await svids.next()
  assert.notEqual(serialOf(renewed), serialOf(first))
  await source.rotateRoot()
  const rotated = await svids.next()
  assert.equal(serialOf(rotated), serialOf(renewed))
  assert.equal(certificatesOf(rotated.svids[0]?.bundle ?? Buffer.alloc(0)).length, 2)
  const { bundles: pushed } = await bundles.next()
  assert.deepEqual(pushed['spiffe://cluster.local'], rotated.svids[0]?.bundle)
  assert.equal(bundles.queued, 0)
})

for (const [what, between] of [
  ['', false],
  [', also if it was gone in between', true],
] as const)
  test(`a chain that comes again with its own key is sent with that key at the next change${what}`, async () => {
    await using api = await start()
    const { source } = api.running
    const svids = api.client.svids()
    const first = await svids.next()
    const item = source.current({ kind: 'identity', identity: WEB })
    assert.ok(item?.kind === 'certificate')
    const { name, version, certificateChain, notBefore, notAfter, serialNumber } = item
    const privateKey = item.privateKey.clone()
    const again = new CertificateSecret({
      name,
      version,
      certificateChain: certificateChain.toString(),
      privateKey,
      notBefore,
      notAfter,
      serialNumber,
    })
    if (between) source.set(WEB, undefined)
    // Which wipes the key of the one before.
    source.set(WEB, again)
    await source.rotateRoot()
    const next = await svids.next()
    assert.equal(serialOf(next), serialOf(first))
    assert.deepEqual(next.svids[0]?.x509SvidKey, first.svids[0]?.x509SvidKey)
  })

test('bundles of other trust domains are federated ones, and revocation lists are beside them', async () => {
  const source = await MemorySource.create(WEB)
  const crl = Buffer.from('a revocation list')
  const pem = Buffer.from(derToPem(crl, 'CERTIFICATE').replaceAll('CERTIFICATE', 'X509 CRL'))
  source.setBundle('cluster.local', { crl: Buffer.concat([pem, pem]), version: 'with lists' })
  await using api = await start({}, { source })
  const stream = api.client.svids()
  const { federatedBundles, crl: lists } = await stream.next()
  assert.deepEqual([federatedBundles, lists], [{}, [crl]])
  source.setBundle('other.example')
  const { svids, federatedBundles: after } = await stream.next()
  assert.deepEqual(Object.keys(after), ['spiffe://other.example'])
  assert.ok(svids[0] && verified(svids[0]).isVerified)
  const bundles = await api.client.bundles().next()
  assert.deepEqual(Object.keys(bundles.bundles).sort(), ['spiffe://cluster.local', 'spiffe://other.example'])
  assert.deepEqual(bundles.crl, [crl])
})

test('on a shared socket a caller gets the identities that allow names and that are held, in their order', async () => {
  await using api = await start(shared(API, OTHER, WEB))
  const stream = api.client.svids()
  assert.deepEqual(idsOf(await stream.next()), [API, WEB])
  await api.running.source.issue(WEB)
  assert.deepEqual(idsOf(await stream.next()), [API, WEB])
  await api.running.source.issue(OTHER)
  api.running.server.review()
  assert.deepEqual(idsOf(await stream.next()), [API, OTHER, WEB])
})

test('what only a pattern allows is handed out where "default" means it', async () => {
  const source = await MemorySource.create(WEB)
  await using api = await start(shared('spiffe://cluster.local/ns/default/sa/*'), { source })
  assert.deepEqual(idsOf(await api.client.svids().next()), [WEB])
  await source.issue(API)
  const { code } = await api.client.svids().status
  assert.equal(code, status.PERMISSION_DENIED)
})

test('a caller without an identity is refused identities, bundles and JWT keys', async () => {
  await using api = await start(shared())
  for (const stream of [api.client.svids(), api.client.bundles(), api.client.jwtBundles()]) {
    const { code, details } = await stream.status
    assert.equal(code, status.PERMISSION_DENIED)
    assert.match(details, /no identity is issued to this caller/)
    assert.equal(stream.queued, 0)
  }
})

test('streams of bundles end at the review that finds no identity of their caller', async () => {
  await using api = await start(shared(WEB))
  const { source, server } = api.running
  const streams = [api.client.bundles(), api.client.jwtBundles()]
  for (const stream of streams) await stream.next()
  source.forget(WEB)
  server.review()
  for (const stream of streams) assert.equal((await stream.status).code, status.PERMISSION_DENIED)
})

test('a caller that is allowed more identities than clients read is refused with the reason', async () => {
  const many = Array.from({ length: 65 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/default/sa/s${index}`)
  const source = await MemorySource.create()
  for (const identity of many) source.add(identity)
  await using api = await start(shared(...many), { source })
  const { code, details } = await api.client.svids().status
  assert.equal(code, status.PERMISSION_DENIED)
  assert.match(details, /65 identities, more than 64/)
  assert.deepEqual(Object.keys((await api.client.bundles().next()).bundles), ['spiffe://cluster.local'])
})

test('every method asks for the security header', async () => {
  await using api = await start()
  const decode = { decode: () => undefined }
  for (const method of ['FetchX509SVID', 'FetchX509Bundles', 'FetchJWTSVID', 'FetchJWTBundles', 'ValidateJWTSVID']) {
    for (const headers of [new Metadata(), securityHeader('false'), securityHeader('true', 'true')]) {
      const { code } = await api.client.open(method, decode, headers).status
      assert.equal(code, status.INVALID_ARGUMENT, method)
    }
  }
})

test('JWT-SVIDs are neither issued nor validated, which the status says, and methods that nobody knows are not served either', async () => {
  await using api = await start()
  const answers = [
    ['FetchJWTSVID', /^this agent issues X\.509-SVIDs, and no JWT-SVIDs$/],
    ['ValidateJWTSVID', /validates no JWT-SVIDs$/],
    ['FetchWITSVID', /./],
  ] as const
  for (const [method, says] of answers) {
    const { code, details } = await api.client.open(method, { decode: () => undefined }).status
    assert.equal(code, status.UNIMPLEMENTED, method)
    assert.match(details, says)
  }
})

test('each trust domain has an empty set of JWT keys, pushed when there are others, on a stream that stays open', async () => {
  const source = await MemorySource.create(WEB)
  await using api = await start({}, { source })
  const stream = api.client.jwtBundles()
  const keysOf = async () =>
    Object.entries((await stream.next()).bundles).map(([id, keys]) => [id, JSON.parse(keys.toString())])
  assert.deepEqual(await keysOf(), [['spiffe://cluster.local', { keys: [] }]])
  await source.rotateRoot()
  source.setBundle('other.example')
  assert.deepEqual(await keysOf(), [
    ['spiffe://cluster.local', { keys: [] }],
    ['spiffe://other.example', { keys: [] }],
  ])
  assert.equal(stream.queued, 0)
})

test("a socket serves it only if it is one identity's, or says so", async () => {
  for (const socket of [{ workloadApi: false }, { allow: [WEB] }]) {
    await using api = await start(socket)
    assert.equal((await api.client.svids().status).code, status.UNIMPLEMENTED)
    const health = api.running.connect()
    await assert.rejects(health.health('SpiffeWorkloadAPI'), /no such service/)
  }
  await using api = await start()
  assert.equal(await api.running.connect().health('SpiffeWorkloadAPI'), 1)
})

test('a certificate that is not issued yet is waited for, and nobody is taken for the default identity', async () => {
  const source = await MemorySource.create(WEB)
  source.add(NEVER_ISSUED)
  await using api = await start(shared(NEVER_ISSUED, WEB), { source })
  const stream = api.client.svids()
  await api.running.event('stream-report', ({ report }) => report.kind === 'asked' && report.name === WEB)
  await api.running.connect().settled()
  assert.equal(stream.queued, 0)
  await source.issue(NEVER_ISSUED)
  assert.deepEqual(idsOf(await stream.next()), [NEVER_ISSUED, WEB])
})

test('an identity that was removed is left out, and the last one ends the stream', async () => {
  await using api = await start(shared(API, WEB))
  const { source } = api.running
  const stream = api.client.svids()
  assert.deepEqual(idsOf(await stream.next()), [API, WEB])
  source.forget(API)
  assert.deepEqual(idsOf(await stream.next()), [WEB])
  source.forget(WEB)
  assert.equal((await stream.status).code, status.PERMISSION_DENIED)
})

test('rules that change apply at once: what is allowed is pushed, a caller that loses an identity is cut off', async () => {
  await using api = await start(shared(WEB))
  const stream = api.client.svids()
  assert.deepEqual(idsOf(await stream.next()), [WEB])
  change(api.running, { allow: [API, WEB] })
  assert.deepEqual(idsOf(await stream.next()), [API, WEB])
  change(api.running, { allow: [API] })
  assert.notEqual((await stream.status).code, status.OK)
  assert.deepEqual(idsOf(await api.client.svids().next()), [API])
})

test('a closing socket sends renewals until the drain is over, and then ends the stream with UNAVAILABLE', async () => {
  await using api = await start({}, { drainMs: 3_000 })
  const { source, server } = api.running
  const stream = api.client.svids()
  await stream.next()
  const closed = server.close()
  await source.clock.waitForDeadline(time => time === source.clock.now() + 3_000)
  await source.issue(WEB)
  assert.deepEqual(idsOf(await stream.next()), [WEB])
  await source.clock.advance(3_000)
  assert.equal((await stream.status).code, status.UNAVAILABLE)
  await closed
})

test('a stream counts as having new roots when its peer has received them, and as silent until then', async () => {
  const heard: string[] = []
  let accepted = Promise.withResolvers<void>()
  const receipts: Receipts = {
    open: () => ({
      sent: ({ version }: TrustBundleSecret) => void heard.push(`sent ${version}`),
      accepted: ({ version }: TrustBundleSecret) => {
        heard.push(`accepted ${version}`)
        accepted.resolve()
      },
      rejected: () => assert.fail('the Workload API has no rejections'),
      [Symbol.dispose]() {},
    }),
  }
  const source = Object.assign(await MemorySource.create(WEB), { receipts })
  source.setBundle('cluster.local', { version: 'v1' })
  await using api = await start({}, { source })
  const stream = api.client.svids()
  await stream.next()
  await accepted.promise
  assert.deepEqual(heard, ['sent v1', 'accepted v1'])
  accepted = Promise.withResolvers()
  source.setBundle('cluster.local', { version: 'v2' })
  await stream.next()
  await accepted.promise
  assert.deepEqual(heard.slice(2), ['sent v2', 'accepted v2'])
})

test('a stream of JWT keys says nothing about the roots that its client has', async () => {
  const source = Object.assign(await MemorySource.create(WEB), {
    receipts: {
      open: () => ({
        sent: () => assert.fail('it has no roots'),
        accepted: () => assert.fail('it has no roots'),
        rejected: () => assert.fail('the Workload API has no rejections'),
        [Symbol.dispose]() {},
      }),
    } satisfies Receipts,
  })
  await using api = await start({}, { source })
  const stream = api.client.jwtBundles()
  await stream.next()
  await api.running.connect().settled()
  assert.equal(
    api.running.events.filter(event => event.kind === 'stream-report' && event.report.kind === 'pushed').length,
    0,
  )
})

test('a caller that a directory identified has the identity that was chosen for it, when that is issued, and no other', async () => {
  const directory = new MemoryDirectory()
  const { readPeerCredentials } = directory
  directory.pid = 1
  directory.set(1, OTHER)
  const options = { callerDirectory: directory, readPeerCredentials }
  await using api = await start({ allow: [], identify: true, workloadApi: true }, options)
  const stream = api.client.svids()
  await api.running.event('stream-report', ({ report }) => report.kind === 'asked' && report.name === OTHER)
  await api.running.source.issue(OTHER)
  api.running.server.review()
  assert.deepEqual(idsOf(await stream.next()), [OTHER])
  directory.set(1, WEB)
  assert.notEqual((await stream.status).code, status.OK)
  const second = api.client.svids()
  assert.deepEqual(idsOf(await second.next()), [WEB])
  directory.set(1, undefined)
  await second.status
  assert.equal((await api.client.svids().status).code, status.PERMISSION_DENIED)
})

test('streams and pushes are reported as for SDS', async () => {
  await using api = await start()
  const stream = api.client.svids()
  await stream.next()
  const [listed] = api.running.streams()
  assert.deepEqual([listed?.method, listed?.node, listed?.names], ['FetchX509SVID', '', 2])
  assert.deepEqual(
    api.running.reports.get(WEB)?.map(({ kind }) => kind),
    ['asked', 'pushed'],
  )
  const { peer } = await api.running.event('stream-report')
  assert.equal(peer, `a caller on ${api.running.path}`)
  stream.cancel()
  const closed = await api.running.event('stream-closed')
  assert.equal(closed.stream.method, 'FetchX509SVID')
})
