/** Which text says why something failed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reasonOf } from './reason-of.ts'

test('a failed fetch has the reason of its cause, at the first address', () => {
  const refused = new AggregateError([
    new Error('connect ECONNREFUSED ::1:1'),
    new Error('connect ECONNREFUSED 127.0.0.1:1'),
  ])
  assert.equal(reasonOf(new TypeError('fetch failed', { cause: refused })), 'connect ECONNREFUSED ::1:1')
  assert.equal(reasonOf(new TypeError('terminated', { cause: new Error('other side closed') })), 'other side closed')
})

test('an error has its message, without one its name, and anything else its text', () => {
  assert.equal(reasonOf(new Error('no key', { cause: new Error('inner') })), 'no key')
  assert.equal(reasonOf(new TypeError('')), 'TypeError')
  assert.equal(reasonOf(new TypeError('fetch failed')), 'fetch failed')
  assert.equal(reasonOf('no key'), 'no key')
})
