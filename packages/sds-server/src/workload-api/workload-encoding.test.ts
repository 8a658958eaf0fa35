/** Messages of the Workload API as bytes: shared, without their keys, and of a bounded size. */
import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { CertificateSecret, plainKeyVault, SealedKey } from '@livery/core'
import { payloadOf } from '../../test/frame-payload.ts'
import { MemorySource } from '../../test/memory-source.ts'
import { WEB } from '../../test/running-server.ts'
import { X509SVIDResponse } from '../gen/spiffe/workload/workload.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { encodeSvids, WorkloadEncoder } from './workload-encoding.ts'
import { composeMessage } from './workload-stream.ts'

function messageOf(source: MemorySource) {
  const item = source.current({ kind: 'identity', identity: WEB })
  const bundles = source.current({ kind: 'all-bundles' })
  assert.ok(item?.kind === 'certificate' && bundles?.kind === 'all-bundles')
  const message = composeMessage([{ identity: WEB, item }], bundles)
  assert.ok(message)
  return message
}

test('streams with the same secrets share one frame, which holds the key only while it is written', async () => {
  const message = messageOf(await MemorySource.create(WEB))
  const encoder = new WorkloadEncoder(encodeSvids)
  const frame = encoder.encodeMessage(message)
  assert.equal(encoder.encodeMessage({ ...message }), frame)
  const key = Buffer.from(X509SVIDResponse.decode(payloadOf(frame)).svids[0]?.x509SvidKey ?? '')
  assert.ok(createPrivateKey({ key, format: 'der', type: 'pkcs8' }))
  frame.release(true)
  assert.ok(frame.bytes.includes(key))
  frame.release(true)
  assert.ok(!frame.bytes.includes(key.subarray(40, 60)))
})

test('a key in an older form is sent as PKCS#8', async () => {
  const message = messageOf(await MemorySource.create(WEB))
  const [svid] = message.svids
  assert.ok(svid)
  const { item } = svid
  const pem = item.privateKey.open(key => createPrivateKey(Buffer.from(key)).export({ type: 'sec1', format: 'pem' }))
  const privateKey = new SealedKey(plainKeyVault, Buffer.from(pem))
  const { name, version, notBefore, notAfter, serialNumber } = item
  const certificateChain = item.certificateChain.toString()
  const older = new CertificateSecret({
    name,
    version,
    notBefore,
    notAfter,
    serialNumber,
    certificateChain,
    privateKey,
  })
  const frame = new WorkloadEncoder(encodeSvids).encodeMessage({ ...message, svids: [{ ...svid, item: older }] })
  const [sent] = X509SVIDResponse.decode(payloadOf(frame)).svids
  assert.ok(sent)
  const key = createPrivateKey({ key: sent.x509SvidKey, format: 'der', type: 'pkcs8' })
  assert.ok(new X509Certificate(sent.x509Svid).checkPrivateKey(key))
})

test('a message that clients would refuse for its size is refused with the reason', async () => {
  const source = await MemorySource.create(WEB)
  source.setBundle('cluster.local', { version: 'large', copies: 15_000 })
  assert.throws(
    () => new WorkloadEncoder(encodeSvids).encodeMessage(messageOf(source)),
    (error: unknown) => error instanceof StreamRefusal && /clients take at most 4194304/.test(error.message),
  )
})

test('frames of 8 MiB together are kept, the latest', async () => {
  const source = await MemorySource.create(WEB)
  const encoder = new WorkloadEncoder(encodeSvids)
  source.setBundle('cluster.local', { version: 'first', copies: 7_500 })
  const first = messageOf(source)
  const frame = encoder.encodeMessage(first)
  assert.ok(frame.bytes.length > 2_097_152, `${frame.bytes.length} bytes`)
  assert.equal(encoder.encodeMessage(first), frame)
  for (let version = 0; version < 3; version++) {
    source.setBundle('cluster.local', { version: `${version}`, copies: 7_500 })
    encoder.encodeMessage(messageOf(source))
  }
  assert.notEqual(encoder.encodeMessage(first), frame)
})
