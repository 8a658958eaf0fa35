import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Heap } from './heap.ts'

function drain(heap: Heap<number>): number[] {
  const items: number[] = []
  for (let item = heap.pop(); item !== undefined; item = heap.pop()) items.push(item)
  return items
}

test('items are returned in order, and only the retained ones', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(100)), fc.nat(3), (items, divisor) => {
      const heap = new Heap<number>((a, b) => a < b)
      for (const item of items) heap.push(item)
      const kept = items.filter(item => item % 4 !== divisor)
      heap.retain(item => item % 4 !== divisor)
      assert.equal(heap.size, kept.length)
      assert.deepEqual(
        drain(heap),
        kept.toSorted((a, b) => a - b),
      )
    }),
  )
})
