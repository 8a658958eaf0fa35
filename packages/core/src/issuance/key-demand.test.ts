import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../../test/manager-bench.ts'
import { TestKeyGenerator } from '../testing/test-key-generator.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** Records the demand that it was asked to prepare for. */
class PoolingKeyGenerator extends TestKeyGenerator {
  readonly prepared: (readonly [type: string, count: number])[] = []

  prepare(type: string, count: number): void {
    this.prepared.push([type, count])
  }
}

async function withPool(options: Parameters<typeof Bench.create>[0] = {}) {
  const keyGenerator = new PoolingKeyGenerator()
  const bench = await Bench.create({ verifier: believer(), ...options, keyGenerator }, answerInstantly)
  return { bench, prepared: keyGenerator.prepared }
}

function addSome(bench: Bench, count: number): void {
  for (let index = 0; index < count; index++) bench.manager.add(`spiffe://cluster.local/ns/load/sa/sa-${index}`)
}

test('a burst is announced within a second, by how many of it are still to be fetched', async () => {
  const { bench, prepared } = await withPool({ keyType: 'rsa-2048', concurrency: 4 })
  await using _ = bench
  bench.ca.answer = () => new Promise(() => {})
  addSome(bench, 1_000)
  assert.deepEqual(prepared, [])
  await bench.clock.advance(SECOND)
  assert.deepEqual(prepared, [['rsa-2048', 996]])
})

test('renewals due within five minutes are announced, and nothing while nothing is due', async () => {
  const { bench, prepared } = await withPool()
  await using _ = bench
  addSome(bench, 100)
  await bench.until('issued', 100)
  await bench.clock.advance(HOUR)
  assert.deepEqual(prepared.at(-1), ['ecdsa-p256', 0])

  const due = bench.manager.entries().map(({ renewAt = 0 }) => renewAt)
  const middle = due.toSorted((a, b) => a - b)[50] ?? 0
  await bench.clock.advance(middle - 5 * MINUTE - bench.clock.now())
  prepared.length = 0
  await bench.clock.advance(30 * SECOND)
  const now = bench.clock.now()
  const foreseen = due.filter(time => time > now && time <= now + 5 * MINUTE).length
  assert.ok(prepared.length >= 1)
  assert.ok(Math.abs((prepared.at(-1)?.[1] ?? 0) - foreseen) <= 2)
  assert.ok(foreseen >= 1)
})

test('closing says that no more keys are wanted', async () => {
  const { bench, prepared } = await withPool()
  await bench[Symbol.asyncDispose]()
  assert.deepEqual(prepared, [['ecdsa-p256', 0]])
})

test('a generator without a pool is asked for nothing, and no timer runs for it', async () => {
  await using bench = await Bench.create()
  // The one is that of the question for the CA's roots.
  assert.equal(bench.clock.deadlines().length, 1)
})
