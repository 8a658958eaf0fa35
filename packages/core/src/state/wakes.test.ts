import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Wakes } from './wakes.ts'

test('each thing is woken once, at the last time that it was given, and all in their order', () => {
  const step = fc.tuple(fc.nat(20), fc.option(fc.nat(100), { nil: Number.POSITIVE_INFINITY }))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), fc.nat(100), (steps, now) => {
      const wakes = new Wakes<{ name: number; place: number }>()
      const items = Array.from({ length: 21 }, (_, name) => ({ name, place: -1 }))
      const times = new Map<number, number>()
      for (const [name, time] of steps) {
        const item = items[name]
        if (item) wakes.arm(item, time)
        times.set(name, time)
        assert.equal(wakes.nextAt, Math.min(...times.values()))
      }
      const due = [...times].filter(([, time]) => time <= now)
      const taken: number[] = []
      for (let item = wakes.take(now); item; item = wakes.take(now)) {
        assert.equal(item.place, -1)
        taken.push(items.indexOf(item))
      }
      assert.deepEqual(
        taken.map(name => times.get(name)),
        due.map(([, time]) => time).sort((a, b) => a - b),
      )
      const later = [...times.values()].filter(time => time > now)
      assert.equal(wakes.nextAt, Math.min(Number.POSITIVE_INFINITY, ...later))
    }),
  )
})
