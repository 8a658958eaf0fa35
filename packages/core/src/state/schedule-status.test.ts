import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

function workload(index: number): SpiffeId {
  return `spiffe://cluster.local/ns/load/sa/sa-${index}`
}

test('the queue is counted by rank, beside what is in flight and the window', async () => {
  await using bench = await Bench.create({ concurrency: 2 })
  bench.ca.answer = () => new Promise(() => {})
  for (let index = 0; index < 5; index++) bench.manager.add(workload(index))
  using _ = bench.manager.watch({ kind: 'identity', identity: workload(4) }, () => {})
  assert.deepEqual(bench.manager.schedule(), {
    queued: { 'on-demand': 1, first: 2, renewal: 0, retry: 0 },
    inFlight: 2,
    window: 2,
    pause: undefined,
    downSince: undefined,
  })
})

test('renewals and retries have separate ranks', async () => {
  const options = { concurrency: 1, timeoutMs: 2 * HOUR, verifier: believer(HOUR) }
  await using bench = await Bench.create(options, answerInstantly)
  for (let index = 0; index < 4; index++) bench.manager.add(workload(index))
  await bench.until('issued', 4)
  bench.ca.answer = ({ identity }) =>
    identity === workload(0) ? Promise.reject(new CAError('denied', 'not this one')) : new Promise(() => {})
  bench.manager.renew(workload(0))
  await bench.clock.advance(1_000)
  await bench.until('ca-error', 1)
  await bench.clock.advance(HOUR - MINUTE)
  const { queued, inFlight } = bench.manager.schedule()
  assert.deepEqual([inFlight, queued], [1, { 'on-demand': 0, first: 0, renewal: 2, retry: 1 }])
})

test('a CA without room, one that is down and a clock that jumped are reasons to ask for less', async () => {
  await using bench = await Bench.create({ random: () => 0 })
  const schedule = () => bench.manager.schedule()
  bench.ca.answer = () => Promise.reject(new CAError('rate-limited', 'slow down', { retryAfterMs: 90_000 }))
  bench.manager.add(workload(0))
  await bench.until('retry-planned', 1)
  assert.deepEqual(schedule().pause, { reason: 'rate-limited', until: bench.clock.now() + 90_000 })
  bench.ca.answer = (request, sign) => sign(request)
  await bench.clock.advance(90_000)
  await bench.until('issued', 1)
  assert.equal(schedule().pause, undefined)

  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'no connection'))
  for (let index = 1; index < 4; index++) bench.manager.add(workload(index))
  await bench.until('ca-down', 1)
  const { pause } = schedule()
  assert.equal(pause?.reason, 'ca-down')
  assert.ok(pause.until !== undefined && pause.until > bench.clock.now())

  const roots = Promise.withResolvers<readonly string[]>()
  bench.ca.trustBundle = () => roots.promise
  bench.clock.jump(HOUR)
  await bench.clock.advance(0)
  assert.deepEqual(schedule().pause, { reason: 'clock-jumped', until: undefined })
  bench.ca.answer = (request, sign) => sign(request)
  roots.resolve(bench.ca.roots)
  await bench.until('ca-back', 1)
  assert.equal(schedule().pause, undefined)
})

test('renewals are counted by the minute in which they fall due, within the next hour', async () => {
  await using bench = await Bench.create({ verifier: believer(HOUR) }, answerInstantly)
  for (let index = 0; index < 200; index++) bench.manager.add(workload(index))
  await bench.until('issued', 200)
  const now = bench.clock.now()
  const minutes = bench.manager.entries().map(({ renewAt = 0 }) => Math.floor((renewAt - now) / MINUTE))
  const expected = Array.from({ length: 60 }, (_, minute) => minutes.filter(each => each === minute).length)
  assert.deepEqual(bench.manager.plannedPerMinute(), expected)
  assert.equal(
    expected.reduce((a, b) => a + b),
    200,
  )
  await using longer = await Bench.create({ verifier: believer(24 * HOUR) }, answerInstantly)
  longer.manager.add(workload(0))
  await longer.until('issued', 1)
  assert.deepEqual(new Set(longer.manager.plannedPerMinute()), new Set([0]))
})
