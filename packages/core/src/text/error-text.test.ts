import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import { errorText } from './error-text.ts'

/** Thrown by JavaScript that means harm, or by a proxy of another library. */
const textless = [
  { toString: null },
  Object.create(null),
  Object.defineProperty(new Error('x'), 'message', {
    get() {
      throw new Error('a getter')
    },
  }),
]

test('whatever was thrown has a text', () => {
  assert.equal(errorText(new Error('why')), 'why')
  assert.equal(errorText('why'), 'why')
  assert.equal(errorText(undefined), 'undefined')
  assert.equal(errorText(Object.assign(new Error('x'), { message: 5 })), '5')
  for (const thrown of textless) assert.match(errorText(thrown), /has no text/)
})

test('a plugin that throws what has no text has failed like any other', async () => {
  for (const thrown of textless) {
    await using bench = await Bench.create()
    bench.ca.answer = () => Promise.reject(thrown)
    bench.ca.trustBundle = () => Promise.reject(thrown)
    bench.manager.add('spiffe://cluster.local/ns/default/sa/web')
    await bench.until('retry-planned', 1)
    assert.equal(bench.last('ca-error').code, 'unavailable')
    assert.match(bench.last('ca-error').message, /has no text/)
  }
})
