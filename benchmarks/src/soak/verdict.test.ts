import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judge, judgeMemory, judgeSpread, type Observed, passes, type Sample } from './verdict.ts'

const cpu = { agent: 0.5, ca: 0.4, client: 0.1 }

/** Ten seconds apart. */
function memory(count: number, residentMB: (index: number) => number): Sample[] {
  return Array.from({ length: count }, (_, index) => ({
    second: index * 10,
    residentMB: residentMB(index),
    heapMB: 50,
    renewalsPerSecond: 10,
    cpu,
  }))
}

const good: Observed = {
  identities: 100,
  ttlMs: 10_000,
  seen: 1_000,
  failureCount: 0,
  failures: [],
  allServedAfterS: 2,
  renewals: new Array<number>(60).fill(20),
  leastLeftMs: 4_000,
  attack: true,
  answers: [{ attack: 'rapid reset', count: 200, p50Ms: 2, p99Ms: 49, mostMs: 80 }],
  floods: [{ attack: 'streams, 8 connections', count: 60, p50Ms: 1, p99Ms: 40, mostMs: 300, grownMB: 150 }],
  samples: memory(180, () => 300),
}

const flood = { attack: 'streams, 128 connections', count: 60, p50Ms: 1, p99Ms: 40, mostMs: 40, grownMB: 20 }

const slow = { attack: 'a slow one', p50Ms: 2, p99Ms: 5, mostMs: 80 }

test('a soak in which everything went well passes', () => {
  const checks = judge(good)
  assert.ok(checks.every(({ holds }) => holds === true))
  assert.ok(passes(checks))
})

for (const [what, change] of [
  ['one bad secret', { failureCount: 1, failures: ['sa-7: bad'] }],
  ['no secret at all', { seen: 0 }],
  ['a name that never got one', { allServedAfterS: undefined }],
  ['a certificate that came late', { leastLeftMs: -1 }],
  ['a burst of renewals', { renewals: [...good.renewals, 200] }],
  ['an attack that makes answers slow', { answers: [...good.answers, { ...slow, count: 9, p99Ms: 51 }] }],
  ['an attack under which nothing was answered', { answers: [...good.answers, { ...slow, count: 0 }] }],
  ['no attack at all', { answers: [] }],
  ['a flood that holds an answer back', { floods: [...good.floods, { ...flood, mostMs: 301 }] }],
  ['a flood that takes memory', { floods: [...good.floods, { ...flood, grownMB: 151 }] }],
  ['no flood', { floods: [] }],
  ['memory that grows', { samples: memory(180, index => 200 + index) }],
] as const) {
  test(`${what} fails it`, () => {
    assert.equal(passes(judge({ ...good, ...change })), false)
  })
}

test('the first lifetime, with its one window, is left out of the spread', () => {
  const renewals = [...new Array<number>(10).fill(500), ...new Array<number>(20).fill(20)]
  assert.equal(judgeSpread({ renewals, ttlMs: 10_000 }).holds, true)
})

test('before two lifetimes have passed the spread cannot be judged', () => {
  assert.equal(judgeSpread({ renewals: new Array<number>(15).fill(20), ttlMs: 10_000 }).holds, undefined)
})

test('memory that grew while warming up is flat', () => {
  const { holds, found } = judgeMemory(memory(180, index => Math.min(200 + index * 3, 350)))
  assert.equal(holds, true)
  assert.match(found, /350 MB, then 350 MB; .* rises by 0\.0 MB an hour/)
})

test('the growth is stated per hour', () => {
  assert.match(judgeMemory(memory(180, index => 300 + index / 6)).found, /rises by 60\.0 MB an hour/)
})

test('a short soak says nothing of memory, and does not fail by it', () => {
  const checks = judge({ ...good, samples: memory(12, index => 100 + 50 * index) })
  assert.equal(checks.find(({ name }) => name.startsWith('resident memory'))?.holds, undefined)
  assert.ok(passes(checks))
})
