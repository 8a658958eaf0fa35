import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { retryTransient } from './retry-transient.ts'

function failure(code: string): Error {
  return new Error('wrapped', { cause: Object.assign(new Error(code), { code }) })
}

test('a failure that can end on its own is tried five times over 15 s', async () => {
  const clock = new FakeClock()
  const start = clock.now()
  const tries: number[] = []
  const result = retryTransient(clock, async () => {
    tries.push(clock.now() - start)
    throw failure('ENOSPC')
  })
  const rejected = assert.rejects(result, { message: 'wrapped' })
  for (const delay of [1_000, 2_000, 4_000, 8_000]) {
    await clock.waitForDeadline(time => time === clock.now() + delay)
    await clock.advance(delay)
  }
  await rejected
  assert.deepEqual(tries, [0, 1_000, 3_000, 7_000, 15_000])
})

test('the first success ends it', async () => {
  const clock = new FakeClock()
  let tries = 0
  const result = retryTransient(clock, async () => {
    if (++tries === 1) throw failure('EMFILE')
    return 'done'
  })
  await clock.waitForDeadline(() => true)
  await clock.advance(1_000)
  assert.equal(await result, 'done')
  assert.deepEqual(clock.deadlines(), [])
})

test('an abort ends the wait with its reason', async () => {
  const clock = new FakeClock()
  const controller = new AbortController()
  const attempt = async () => {
    throw failure('ENOSPC')
  }
  const rejected = assert.rejects(retryTransient(clock, attempt, controller.signal), { message: 'enough' })
  await clock.waitForDeadline(() => true)
  controller.abort(new Error('enough'))
  await rejected
  assert.deepEqual(clock.deadlines(), [])
})

test('what will not pass is not tried again', async () => {
  for (const code of ['EACCES', 'EROFS', 'ENOTDIR']) {
    let tries = 0
    const result = retryTransient(new FakeClock(), async () => {
      tries++
      throw failure(code)
    })
    await assert.rejects(result)
    assert.equal(tries, 1)
  }
})
