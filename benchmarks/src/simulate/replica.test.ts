import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Replica } from './replica.ts'

/** Each signature takes the mean. */
const random = () => 0.5

test('signatures come one after the other, at the rate', () => {
  const replica = new Replica({ rate: 100, queue: 10, random })
  assert.deepEqual(replica.offer(0), { kind: 'signed', at: 10 })
  assert.deepEqual(replica.offer(0), { kind: 'signed', at: 20 })
  assert.deepEqual(replica.offer(15), { kind: 'signed', at: 30 })
  assert.deepEqual(replica.offer(100), { kind: 'signed', at: 110 })
})

test('what does not fit into the queue is refused, and costs nothing', () => {
  const replica = new Replica({ rate: 100, queue: 2, random })
  replica.offer(0)
  replica.offer(0)
  assert.deepEqual(replica.offer(0), { kind: 'refused' })
  assert.equal(replica.waitMs(0), 20)
  assert.deepEqual(replica.offer(10), { kind: 'signed', at: 30 })
})

test('a queue without a bound takes everything', () => {
  const replica = new Replica({ rate: 1, queue: Number.POSITIVE_INFINITY, random })
  for (let call = 0; call < 1_000; call++) replica.offer(0)
  assert.equal(replica.waitMs(0), 1_000_000)
})

test('after a stop nothing waits any more', () => {
  const replica = new Replica({ rate: 1, queue: 10, random })
  replica.offer(0)
  replica.offer(0)
  replica.stop(500)
  assert.equal(replica.waitMs(600), 0)
})
