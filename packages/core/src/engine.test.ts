import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../test/manager-bench.ts'
import { CAError } from './contract/ca-client.ts'
import { Events } from './contract/events.ts'
import type { SecretReport } from './contract/secret-event.ts'

test('what falls due while a listener takes its time is done after it', async () => {
  const events = new Events<SecretReport>()
  await using bench = await Bench.create({ events }, ca => {
    ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
  })
  let isSlow = false
  events.subscribe(({ event }) => {
    // The next probe is due after a second.
    if (isSlow && event.kind === 'retry-planned') bench.clock.jump(2_000)
    if (event.kind === 'retry-planned') isSlow = false
  })
  bench.manager.add('spiffe://cluster.local/ns/a/sa/b')
  while (bench.count('ca-down') === 0) await bench.clock.advance(1_000)
  isSlow = true
  await bench.clock.advance(2_000)
  assert.equal(isSlow, false)
  const asked = bench.ca.requests.length
  await bench.clock.advance(20_000)
  assert.ok(bench.ca.requests.length > asked)
})
