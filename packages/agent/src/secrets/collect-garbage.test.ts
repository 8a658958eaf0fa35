/** Garbage collection on demand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cachedDataVersionTag } from 'node:v8'
import { collectGarbage } from './collect-garbage.ts'

test('garbage is collected at once, and the flags of V8 are as before: compiled code is taken later, too', async () => {
  const before = cachedDataVersionTag()
  let garbage: object | undefined = { large: Array.from({ length: 1_000 }, (_, index) => ({ index })) }
  const reference = new WeakRef(garbage)
  garbage = undefined
  // A WeakRef keeps its object during the turn in which it was made.
  await new Promise(setImmediate)
  collectGarbage()
  assert.equal(reference.deref(), undefined)
  assert.equal(cachedDataVersionTag(), before)
  assert.equal(globalThis.gc, undefined)
})
