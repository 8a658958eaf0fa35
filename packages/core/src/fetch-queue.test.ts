import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FetchQueue } from './fetch-queue.ts'

/** A queue whose tasks end when told. */
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

test('what somebody waits for goes before first issues, and those before renewals; first come first served within one', async () => {
  const { queue, started, end } = controlled(1)
  queue.push('running', 'renewal')
  queue.push('renewal', 'renewal')
  queue.push('first 1', 'first')
  queue.push('first 2', 'first')
  queue.push('on demand', 'on-demand')
  for (const key of ['running', 'on demand', 'first 1', 'first 2', 'renewal']) await end(key)
  assert.deepEqual(started, ['running', 'on demand', 'first 1', 'first 2', 'renewal'])
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

test('a paused queue starts nothing, keeps all, and goes on', async () => {
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
