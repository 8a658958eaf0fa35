import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unlessAborted } from './abandon.ts'

const reason = new Error('nobody waits any more')

test('a result that comes after the abort is discarded, and not lost', async () => {
  const controller = new AbortController()
  const work = Promise.withResolvers<string>()
  const late = Promise.withResolvers<string>()
  let stopped = 0
  const answer = unlessAborted(controller.signal, work.promise, { stop: () => stopped++, discard: late.resolve })
  controller.abort(reason)
  await assert.rejects(answer, error => error === reason)
  assert.equal(stopped, 1)
  work.resolve('a key')
  assert.equal(await late.promise, 'a key')
})

test('a result and an abort in the same tick settle once: rejected and discarded', async () => {
  const controller = new AbortController()
  const work = Promise.withResolvers<string>()
  const discarded: string[] = []
  const answer = unlessAborted(controller.signal, work.promise, { discard: late => discarded.push(late) })
  work.resolve('a key')
  controller.abort(reason)
  await assert.rejects(answer, error => error === reason)
  assert.deepEqual(discarded, ['a key'])
})

test('a failure after the abort is nobody’s unhandled rejection', async () => {
  const controller = new AbortController()
  const work = Promise.withResolvers<string>()
  const answer = unlessAborted(controller.signal, work.promise, { discard: () => assert.fail() })
  controller.abort(reason)
  work.reject(new Error('late'))
  await assert.rejects(answer, error => error === reason)
})
