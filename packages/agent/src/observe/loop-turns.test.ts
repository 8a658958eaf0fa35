import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LoopTurns } from './loop-turns.ts'

function spin(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

test('others have a turn after each slice, and their time does not count', async () => {
  const turns = new LoopTurns()
  let others = 0
  await turns.next()
  setImmediate(() => {
    others++
    spin(500)
  })
  spin(3)
  await turns.next()
  assert.equal(others, 1)
  spin(3)
  assert.ok(turns.busyMs >= 6 && turns.busyMs < 500, `${turns.busyMs} ms`)
})
