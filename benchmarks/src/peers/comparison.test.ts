import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Comparison, isMet, ratioOf } from './comparison.ts'

const base: Comparison = { row: 'r', work: 'w', unit: 'µs', ours: [2, 1, 3], peer: { name: 'p', samples: [4, 4, 4] } }

test('a ratio is ours by theirs', () => {
  assert.equal(ratioOf(base), 0.5)
})

test('at most and at least hold at the bound itself', () => {
  assert.equal(isMet({ ...base, target: { of: 'ratio', is: 'at most', value: 0.5 } }), true)
  assert.equal(isMet({ ...base, target: { of: 'ratio', is: 'at most', value: 0.4 } }), false)
  assert.equal(isMet({ ...base, target: { of: 'ours', is: 'at least', value: 2 } }), true)
  assert.equal(isMet({ ...base, target: { of: 'ours', is: 'at least', value: 2.1 } }), false)
})

test('exactly holds for every sample, not only for the median', () => {
  const target = { of: 'ours', is: 'exactly', value: 100 } as const
  assert.equal(isMet({ ...base, ours: [100, 100, 100], target }), true)
  assert.equal(isMet({ ...base, ours: [100, 100, 101], target }), false)
})

test('without a target, or without the peer that it is about, nothing is met or missed', () => {
  const { peer: _, ...alone } = base
  assert.equal(isMet(base), undefined)
  assert.equal(isMet({ ...alone, target: { of: 'ratio', is: 'at most', value: 1 } }), undefined)
})
