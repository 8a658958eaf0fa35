import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { heapGrowth } from '../../test/heap-growth.ts'
import { FetchQueue } from './fetch-queue.ts'
import type { Urgency } from './identity.ts'

const ALL = Number.POSITIVE_INFINITY

/** A queue whose keys run from {@link fill} until the test ends them, `concurrency` at once. */
function controlled(concurrency: number) {
  const started: string[] = []
  const running = new Map<string, Urgency>()
  const queue = new FetchQueue<string>()
  const fill = () => {
    for (let next = queue.take(concurrency); next; next = queue.take(concurrency)) {
      started.push(next.key)
      running.set(next.key, next.urgency)
    }
  }
  const end = (key: string) => {
    queue.end(running.get(key) ?? assert.fail(`${key} does not run`))
    fill()
  }
  return { queue, started, fill, end }
}

/** All that wait, in their order. */
function drain<Key>(queue: FetchQueue<Key>): Key[] {
  const keys: Key[] = []
  for (let next = queue.take(ALL); next; next = queue.take(ALL)) keys.push(next.key)
  return keys
}

test('a task with a waiter runs before first issues, those before renewals, and retries last; first come, first served within each', () => {
  const { queue, started, fill, end } = controlled(20)
  queue.push('retry', 'retry')
  queue.push('renewal', 'renewal')
  queue.push('first 1', 'first')
  queue.push('first 2', 'first')
  queue.push('on demand', 'on-demand')
  fill()
  assert.deepEqual(started, ['on demand', 'first 1', 'first 2', 'renewal', 'retry'])
  for (const key of started) end(key)
})

test('while renewals wait, others that never end hold no more than half of the room', () => {
  const { queue, started, fill, end } = controlled(4)
  for (let index = 0; index < 10; index++) queue.push(`hung ${index}`, 'on-demand')
  fill()
  for (let index = 0; index < 10; index++) queue.push(`renewal ${index}`, 'renewal')
  assert.deepEqual(started, ['hung 0', 'hung 1', 'hung 2', 'hung 3'])
  end('hung 0')
  end('hung 1')
  for (let index = 0; index < 10; index++) end(`renewal ${index}`)
  assert.deepEqual(
    started.slice(4),
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(index => `renewal ${index}`).concat('hung 4', 'hung 5'),
  )
})

test('where there is room for one, a renewal has every other turn', () => {
  const { queue, started, fill, end } = controlled(1)
  queue.push('running', 'renewal')
  fill()
  for (const key of ['first 1', 'first 2', 'first 3']) queue.push(key, 'first')
  for (const key of ['renewal 1', 'renewal 2']) queue.push(key, 'renewal')
  const order = ['running', 'first 1', 'renewal 1', 'first 2', 'renewal 2', 'first 3']
  for (const key of order) end(key)
  assert.deepEqual(started, order)
})

test('asking again raises the urgency, never lowers it, and never runs a key twice', () => {
  const { queue, started, fill, end } = controlled(1)
  queue.push('running', 'renewal')
  fill()
  queue.push('a', 'renewal')
  queue.push('b', 'first')
  queue.push('a', 'on-demand')
  queue.push('a', 'renewal')
  for (const key of ['running', 'a', 'b']) end(key)
  assert.deepEqual(started, ['running', 'a', 'b'])
})

test('no more than the bound run at once, and a thousand waiting ones are all run', () => {
  const { queue, started, fill, end } = controlled(4)
  for (let index = 0; index < 1_000; index++) queue.push(`${index}`, 'first')
  fill()
  assert.equal(started.length, 4)
  for (let index = 0; index < 1_000; index++) end(`${index}`)
  assert.equal(started.length, 1_000)
})

test('a deleted key never runs', () => {
  const { queue, started, fill, end } = controlled(1)
  queue.push('running', 'first')
  fill()
  queue.push('gone', 'first')
  queue.delete('gone')
  end('running')
  assert.deepEqual(started, ['running'])
})

test('of those with a certificate, the one that loses it first is renewed first', () => {
  const { queue, started, fill, end } = controlled(1)
  queue.push('running', 'renewal')
  fill()
  queue.push('later', 'renewal', 2_000)
  queue.push('sooner', 'renewal', 1_000)
  queue.push('nobody has it', 'first')
  for (const key of ['running', 'nobody has it', 'sooner', 'later']) end(key)
  assert.deepEqual(started, ['running', 'nobody has it', 'sooner', 'later'])
})

test('where there is no room nothing is given, and nothing is lost', () => {
  const { queue, started, fill } = controlled(2)
  queue.push('a', 'first')
  queue.push('b', 'on-demand')
  assert.equal(queue.take(0), undefined)
  assert.equal(queue.waiting, 2)
  fill()
  assert.deepEqual(started, ['b', 'a'])
  assert.equal(queue.running, 2)
})

test('ten thousand that wait are all given, once, the urgent before the others, and deleted ones never', () => {
  const queue = new FetchQueue<number>()
  for (let key = 0; key < 10_000; key++) queue.push(key, key % 2 === 0 ? 'renewal' : 'first', key)
  for (let key = 0; key < 10_000; key += 10) queue.push(key, 'on-demand')
  for (let key = 3; key < 10_000; key += 10) queue.delete(key)
  assert.equal(queue.waiting, 9_000)
  const started: number[] = []
  for (let next = queue.take(8); next; next = queue.take(8)) {
    started.push(next.key)
    queue.end(next.urgency)
  }
  const others = started.filter(key => key % 10 === 0 || key % 2 === 1)
  const onDemand = others.slice(0, 1_000)
  assert.deepEqual(
    onDemand,
    Array.from(onDemand, (_, index) => index * 10),
  )
  const first = others.slice(1_000)
  assert.ok(first.every((key, index) => key % 2 === 1 && key % 10 !== 3 && key > (first[index - 1] ?? 0)))
  assert.equal(new Set(started).size, 9_000)
})

test('keys that were deleted or raised do not pile up', () => {
  const queue = new FetchQueue<object>()
  const stays = {}
  queue.push(stays, 'renewal')
  const growth = heapGrowth(() => {
    for (let index = 0; index < 100_000; index++) {
      const key = {}
      queue.push(key, 'renewal')
      queue.push(key, 'on-demand')
      queue.delete(key)
    }
  })
  assert.ok(growth < 5_000_000, `${growth} bytes are left`)
  assert.equal(queue.waiting, 1)
})

test('a raised task keeps its deadline', () => {
  const { queue, started, fill, end } = controlled(1)
  queue.push('running', 'renewal')
  fill()
  queue.push('later', 'renewal', 2_000)
  queue.push('sooner', 'renewal', 1_000)
  queue.push('later', 'on-demand')
  queue.push('sooner', 'on-demand')
  for (const key of ['running', 'sooner', 'later']) end(key)
  assert.deepEqual(started, ['running', 'sooner', 'later'])
})

test('whatever is pushed, raised and deleted, each key that remains is given once, by urgency and then deadline', () => {
  const urgencies = ['on-demand', 'first', 'renewal', 'retry'] as const
  const step = fc.record({
    key: fc.nat(30),
    urgency: fc.option(fc.constantFrom(...urgencies), { nil: undefined }),
    deadline: fc.nat(5),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), steps => {
      const expected = new Map<number, { rank: number; deadline: number }>()
      const queue = new FetchQueue<number>()
      for (const { key, urgency, deadline } of steps) {
        if (urgency === undefined) {
          queue.delete(key)
          expected.delete(key)
          continue
        }
        const rank = urgencies.indexOf(urgency)
        queue.push(key, urgency, deadline)
        const present = expected.get(key)
        if (!present) expected.set(key, { rank, deadline })
        else if (rank < present.rank) expected.set(key, { rank, deadline: Math.min(deadline, present.deadline) })
      }
      const started = drain(queue)
      assert.deepEqual(new Set(started), new Set(expected.keys()))
      assert.equal(started.length, expected.size)
      const places = started.map(key => expected.get(key) ?? { rank: 0, deadline: 0 })
      assert.deepEqual(
        places,
        places.toSorted((a, b) => a.rank - b.rank || a.deadline - b.deadline),
      )
    }),
  )
})
