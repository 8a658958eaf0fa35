/** Bytes of a peer of the Workload API, and changes of what it is allowed: refused or answered, and nothing is left behind. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { AccessPolicy } from '../../src/access/policy.ts'
import { X509SVIDResponse } from '../../src/gen/spiffe/workload/workload.ts'
import { MessageComposer } from '../../src/protocol/discovery-message.ts'
import type { SecretView } from '../../src/protocol/secret-source.ts'
import { StreamRefusal } from '../../src/protocol/stream-refusal.ts'
import { Subscriptions } from '../../src/protocol/subscriptions.ts'
import { encodeSvids, WorkloadEncoder } from '../../src/workload-api/workload-encoding.ts'
import { decodeWorkloadRequest } from '../../src/workload-api/workload-service.ts'
import { WorkloadStream } from '../../src/workload-api/workload-stream.ts'
import { payloadOf } from '../frame-payload.ts'
import { MemorySource } from '../memory-source.ts'
import { testBudget } from '../test-budget.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

const source = await MemorySource.create(WEB, API)
const names = { default: 'default', root: 'ROOTCA', all: 'ALL' }
const encoder = new WorkloadEncoder(encodeSvids)

export const inputs = fc.record({
  requests: fc.array(fc.oneof(fc.constant(new Uint8Array()), fc.uint8Array({ maxLength: 200 })), { maxLength: 3 }),
  /** The caller's permissions at first, and after each request. */
  allowed: fc.array(fc.subarray([WEB, API]), { minLength: 1, maxLength: 4 }),
})

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never

export function run({ requests, allowed }: Input): void {
  const before = source.subscribers
  let [current = []] = allowed
  const connection = { permission: viewOf(current), budget: testBudget() }
  const context = {
    shared: { source, maxNames: 1, messages: new MessageComposer('n'), clock: { now: () => 0 } },
    connection,
    receipts: undefined,
    wake() {},
    record: { report() {} },
  }
  using subscriptions = new Subscriptions(context)
  const stream = new WorkloadStream(context, subscriptions, { content: 'svids', allBundles: names.all })
  try {
    requests.forEach((bytes, index) => {
      stream.receive(decodeWorkloadRequest(Buffer.from(bytes)))
      read(stream, current)
      current = allowed[index + 1] ?? current
      connection.permission = viewOf(current)
      if (!subscriptions.review()) return
      stream.reviewed()
      read(stream, current)
    })
  } catch (error) {
    assert.ok(error instanceof StreamRefusal, `${error}`)
  }
  subscriptions[Symbol.dispose]()
  assert.equal(source.subscribers, before)
}

function viewOf(allow: readonly string[]): SecretView {
  return (
    new AccessPolicy({ allow }, source, names).admit(undefined) ??
    assert.fail('a socket without callers lets everybody in')
  )
}

function read(stream: WorkloadStream, allowed: readonly string[]): void {
  const message = stream.take()
  if (!message) return
  const frame = encoder.encodeMessage(message)
  const { svids } = X509SVIDResponse.decode(payloadOf(frame))
  frame.release(true)
  assert.ok(svids.length > 0)
  for (const { spiffeId } of svids) assert.ok(allowed.includes(spiffeId), spiffeId)
}
