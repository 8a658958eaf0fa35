import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../testing/fake-clock.ts'
import { after, sleep, withDeadline } from './deadline.ts'

const LATE = new Error('late')
const never = () => new Promise<never>(() => {})

test('a task runs after its time, and not if it is disposed of before', async () => {
  const clock = new FakeClock()
  const ran: string[] = []
  after(clock, 100, () => ran.push('first'))
  after(clock, 50, () => ran.push('disposed'))[Symbol.dispose]()
  await clock.advance(99)
  assert.deepEqual(ran, [])
  await clock.advance(1)
  assert.deepEqual(ran, ['first'])
})

test('a pause ends after its time, and leaves no timer when its signal ends it', async () => {
  const clock = new FakeClock()
  const slept = sleep(clock, 100)
  await clock.advance(100)
  await slept
  const controller = new AbortController()
  const woken = sleep(clock, 100, controller.signal)
  controller.abort(LATE)
  await assert.rejects(woken, LATE)
  assert.deepEqual(clock.deadlines(), [])
})

test('a call settles as its task does, and leaves no timer', async () => {
  const clock = new FakeClock()
  const deadline = { clock, ms: 100, error: () => LATE }
  assert.equal(await withDeadline(deadline, async () => 7), 7)
  await assert.rejects(
    withDeadline(deadline, async () => await Promise.reject(new Error('its own'))),
    /its own/,
  )
  assert.deepEqual(clock.deadlines(), [])
})

test('a call that takes too long rejects, and its task sees the same reason', async () => {
  const clock = new FakeClock()
  let seen: AbortSignal | undefined
  const call = withDeadline({ clock, ms: 100, error: () => LATE }, signal => {
    seen = signal
    return never()
  })
  const rejected = assert.rejects(call, LATE)
  await clock.advance(99)
  assert.equal(seen?.aborted, false)
  await clock.advance(1)
  await rejected
  assert.equal(seen?.reason, LATE)
})

test("the caller's signal ends a call before its time, with the caller's reason", async () => {
  const clock = new FakeClock()
  const controller = new AbortController()
  const reason = new Error('closed')
  const call = withDeadline({ clock, ms: 100, error: () => LATE, signal: controller.signal }, never)
  controller.abort(reason)
  await assert.rejects(call, reason)
  assert.deepEqual(clock.deadlines(), [])
})
