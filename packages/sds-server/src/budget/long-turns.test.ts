/** Turns of the event loop that took long: each is noticed once, by all who listen. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LongTurns } from './long-turns.ts'

test('a turn of 20 ms is noticed once, and shorter ones are not', async () => {
  let activeMs = 0
  const turns = new LongTurns(() => activeMs)
  let noticed = 0
  using first = turns.subscribe(() => noticed++)
  using second = turns.subscribe(() => noticed++)
  for (const lastedMs of [1, 19, 20, 5, 300]) {
    activeMs += lastedMs
    await nextTurn()
    await nextTurn()
  }
  assert.equal(noticed, 2 * 2)
  first[Symbol.dispose]()
  activeMs += 20
  await nextTurn()
  await nextTurn()
  assert.equal(noticed, 2 * 2 + 1)
  second[Symbol.dispose]()
})
