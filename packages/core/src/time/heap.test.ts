import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Heap } from './heap.ts'

test('each thing is taken once, at the last time that it was given, and all in their order', () => {
  const step = fc.tuple(fc.nat(20), fc.option(fc.nat(30), { nil: Number.POSITIVE_INFINITY }))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), fc.nat(30), (steps, now) => {
      const heap = new Heap<{ name: number; place: number }>((a, b) => a.name < b.name)
      const things = Array.from({ length: 21 }, (_, name) => ({ name, place: -1 }))
      const times = new Map<number, number>()
      for (const [name, time] of steps) {
        const thing = things[name]
        if (thing) heap.put(thing, time)
        if (time === Number.POSITIVE_INFINITY) times.delete(name)
        else times.set(name, time)
        assert.equal(heap.nextAt, Math.min(...times.values()))
        assert.deepEqual(new Set(heap.things().map(each => each.name)), new Set(times.keys()))
      }
      const taken: number[] = []
      for (let thing = heap.take(now); thing; thing = heap.take(now)) {
        assert.equal(thing.place, -1)
        taken.push(thing.name)
      }
      const due = [...times].filter(([, time]) => time <= now)
      assert.deepEqual(
        taken,
        due.sort(([a, timeOfA], [b, timeOfB]) => timeOfA - timeOfB || a - b).map(([name]) => name),
      )
      assert.equal(heap.size, times.size - due.length)
      assert.equal(heap.nextAt, Math.min(...[...times.values()].filter(time => time > now)))
      heap.clear()
      assert.ok(things.every(({ place }) => place === -1))
    }),
  )
})
