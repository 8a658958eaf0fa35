import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { memoryLog } from '../../test/memory-log.ts'
import { OtlpReceiver } from '../../test/otlp-receiver.ts'
import { Location, nodeOf } from '../schema/config-tree.ts'
import { openTracing } from './tracing.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

test('a flood that a slow receiver does not take is dropped beyond 2,048 spans', async () => {
  await using receiver = await OtlpReceiver.start()
  const answering = Promise.withResolvers<void>()
  receiver.answering = answering.promise
  const clock = new FakeClock()
  const at = new Location(nodeOf({}, { kind: 'default' }), [])
  const options = { otlp: receiver.url, ratio: 1, at, version: '1.2.3', clock, logger: memoryLog().of('agent') }
  const tracing = await openTracing(options)
  const flood = () => {
    for (let index = 0; index < 20_000; index++)
      for (const event of [
        { kind: 'csr-sent', reason: 'renewal' },
        { kind: 'issued', serialNumber: 'ab', notAfter: 1, renewAt: 0 },
      ] as const)
        tracing.certificates.secret({ name: WEB, time: clock.now(), event })
  }
  flood()
  await receiver.received()
  flood()
  answering.resolve()
  await tracing[Symbol.asyncDispose]()
  // What waited, and the one batch of 512 that was on its way.
  assert.equal(receiver.spans.length, 2_048 + 512)
})
