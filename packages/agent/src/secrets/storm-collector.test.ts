import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { StormCollector } from './storm-collector.ts'

function start() {
  const clock = new FakeClock()
  const state = { clock, collections: 0, issue }
  const collector = new StormCollector(clock, () => void state.collections++)
  function issue(count: number): void {
    for (let each = 0; each < count; each++) collector.issued()
  }
  return { ...state, state, collector }
}

test('garbage is collected once, after a thousand certificates and three seconds of calm', async () => {
  const { clock, state, issue } = start()
  issue(1_000)
  await clock.advance(2_999)
  assert.equal(state.collections, 0)
  await clock.advance(1)
  assert.equal(state.collections, 1)
  await clock.advance(60_000)
  assert.equal(state.collections, 1)
})

test('collection waits for the end of a continuing storm', async () => {
  const { clock, state, issue } = start()
  for (let each = 0; each < 10; each++) {
    issue(200)
    await clock.advance(2_000)
  }
  assert.equal(state.collections, 0)
  await clock.advance(1_000)
  assert.equal(state.collections, 1)
})

test('a few renewals now and then are not worth it', async () => {
  const { clock, state, issue } = start()
  for (let each = 0; each < 9; each++) {
    issue(111)
    await clock.advance(60_000)
  }
  assert.equal(state.collections, 0)
})

test('nothing is collected once it is disposed', async () => {
  const { clock, state, collector, issue } = start()
  issue(1_000)
  collector[Symbol.dispose]()
  await clock.advance(10_000)
  assert.equal(state.collections, 0)
})
