import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Timetable } from './timetable.ts'

test('each item has its last time, and all come in their order', () => {
  const step = fc.tuple(fc.nat(20), fc.option(fc.nat(100), { nil: Number.POSITIVE_INFINITY }))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), fc.nat(100), (steps, now) => {
      const timetable = new Timetable()
      const items = Array.from({ length: 21 }, (_, name) => ({ name, place: -1 }))
      const times = new Map<number, number>()
      for (const [name, time] of steps) {
        const item = items[name]
        if (item) timetable.set(item, time)
        times.set(name, time)
        assert.equal(timetable.next, Math.min(...times.values()))
      }
      const due = [...times].filter(([, time]) => time <= now)
      const taken: number[] = []
      for (let item = timetable.takeDue(now); item; item = timetable.takeDue(now)) {
        assert.equal(item.place, -1)
        taken.push(items.indexOf(item))
      }
      assert.deepEqual(
        taken.map(name => times.get(name)),
        due.map(([, time]) => time).sort((a, b) => a - b),
      )
      assert.equal(timetable.size, [...times.values()].filter(time => time > now && Number.isFinite(time)).length)
    }),
  )
})
