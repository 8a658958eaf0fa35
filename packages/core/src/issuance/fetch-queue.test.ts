import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { heapGrowth } from '../../test/heap-growth.ts'
import { FetchQueue } from './fetch-queue.ts'

/** A queue whose tasks end when the test ends them. */
function controlled(concurrency: number) {
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const queue = new FetchQueue<string>(
    () => concurrency,
    key => {
      started.push(key)
      return new Promise(resolve => ends.set(key, resolve))
    },
  )
  const end = async (key: string) => {
    ends.get(key)?.()
    await new Promise(setImmediate)
  }
  return { queue, started, end }
}

test('a task with a waiter runs before first issues, those before renewals, and retries last; first come, first served within each', async () => {
  const { queue, started, end } = controlled(20)
  queue.pause()
  queue.push('retry', 'retry')
  queue.push('renewal', 'renewal')
  queue.push('first 1', 'first')
  queue.push('first 2', 'first')
  queue.push('on demand', 'on-demand')
  queue.resume()
  assert.deepEqual(started, ['on demand', 'first 1', 'first 2', 'renewal', 'retry'])
  for (const key of started) await end(key)
})

test('while renewals wait, others that never end hold no more than half of the room', async () => {
  const { queue, started, end } = controlled(4)
  for (let index = 0; index < 10; index++) queue.push(`hung ${index}`, 'on-demand')
  for (let index = 0; index < 10; index++) queue.push(`renewal ${index}`, 'renewal')
  assert.deepEqual(started, ['hung 0', 'hung 1', 'hung 2', 'hung 3'])
  await end('hung 0')
  await end('hung 1')
  for (let index = 0; index < 10; index++) await end(`renewal ${index}`)
  assert.deepEqual(
    started.slice(4),
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(index => `renewal ${index}`).concat('hung 4', 'hung 5'),
  )
})

test('where there is room for one, a renewal has every other turn', async () => {
  const { queue, started, end } = controlled(1)
  queue.push('running', 'renewal')
  for (const key of ['first 1', 'first 2', 'first 3']) queue.push(key, 'first')
  for (const key of ['renewal 1', 'renewal 2']) queue.push(key, 'renewal')
  const order = ['running', 'first 1', 'renewal 1', 'first 2', 'renewal 2', 'first 3']
  for (const key of order) await end(key)
  assert.deepEqual(started, order)
})

test('asking again raises the urgency, never lowers it, and never runs a key twice', async () => {
  const { queue, started, end } = controlled(1)
  queue.push('running', 'renewal')
  queue.push('a', 'renewal')
  queue.push('b', 'first')
  queue.push('a', 'on-demand')
  queue.push('a', 'renewal')
  for (const key of ['running', 'a', 'b']) await end(key)
  assert.deepEqual(started, ['running', 'a', 'b'])
})

test('no more than the bound run at once, and a thousand waiting ones are all run', async () => {
  const { queue, started, end } = controlled(4)
  for (let index = 0; index < 1_000; index++) queue.push(`${index}`, 'first')
  assert.equal(started.length, 4)
  for (let index = 0; index < 1_000; index++) await end(`${index}`)
  assert.equal(started.length, 1_000)
})

test('a deleted key never runs', async () => {
  const { queue, started, end } = controlled(1)
  queue.push('running', 'first')
  queue.push('gone', 'first')
  queue.delete('gone')
  await end('running')
  assert.deepEqual(started, ['running'])
})

test('of those with a certificate, the one that loses it first is renewed first', async () => {
  const { queue, started, end } = controlled(1)
  queue.push('running', 'renewal')
  queue.push('later', 'renewal', 2_000)
  queue.push('sooner', 'renewal', 1_000)
  queue.push('nobody has it', 'first')
  for (const key of ['running', 'nobody has it', 'sooner', 'later']) await end(key)
  assert.deepEqual(started, ['running', 'nobody has it', 'sooner', 'later'])
})

test('a paused queue starts nothing, keeps every task, and continues after the pause', async () => {
  const { queue, started } = controlled(2)
  queue.pause()
  queue.push('a', 'first')
  queue.push('b', 'on-demand')
  assert.deepEqual(started, [])
  assert.equal(queue.waiting, 2)
  queue.resume()
  assert.deepEqual(started, ['b', 'a'])
  assert.equal(queue.running, 2)
})

test('ten thousand that wait are all run, once, the urgent before the others, and deleted ones never', async () => {
  const started: number[] = []
  let running = 0
  const queue = new FetchQueue<number>(
    () => 8,
    async key => {
      assert.ok(++running <= 8)
      started.push(key)
      await Promise.resolve()
      running--
    },
  )
  queue.pause()
  for (let key = 0; key < 10_000; key++) queue.push(key, key % 2 === 0 ? 'renewal' : 'first', key)
  for (let key = 0; key < 10_000; key += 10) queue.push(key, 'on-demand')
  for (let key = 3; key < 10_000; key += 10) queue.delete(key)
  assert.equal(queue.waiting, 9_000)
  queue.resume()
  while (queue.waiting > 0 || queue.running > 0) await new Promise(setImmediate)
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

test('tasks that were deleted or raised while the queue is paused do not pile up', () => {
  const queue = new FetchQueue<object>(
    () => 1,
    () => Promise.resolve(),
  )
  queue.pause()
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

test('a raised task keeps its deadline', async () => {
  const { queue, started, end } = controlled(1)
  queue.push('running', 'renewal')
  queue.push('later', 'renewal', 2_000)
  queue.push('sooner', 'renewal', 1_000)
  queue.push('later', 'on-demand')
  queue.push('sooner', 'on-demand')
  for (const key of ['running', 'sooner', 'later']) await end(key)
  assert.deepEqual(started, ['running', 'sooner', 'later'])
})

test('whatever is pushed, raised and deleted, each key that remains is run once, by urgency and then deadline', () => {
  const urgencies = ['on-demand', 'first', 'renewal', 'retry'] as const
  const step = fc.record({
    key: fc.nat(30),
    urgency: fc.option(fc.constantFrom(...urgencies), { nil: undefined }),
    deadline: fc.nat(5),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), steps => {
      const started: number[] = []
      const expected = new Map<number, { rank: number; deadline: number }>()
      const queue = new FetchQueue<number>(
        () => Number.POSITIVE_INFINITY,
        key => {
          started.push(key)
          return Promise.resolve()
        },
      )
      queue.pause()
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
      queue.resume()
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
