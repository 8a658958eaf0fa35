import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualTime } from './virtual-time.ts'

test('deadlines run at their time, in order, across seconds', () => {
  const time = new VirtualTime()
  const ran: (readonly [name: string, ms: number])[] = []
  const note = (name: string) => () => void ran.push([name, time.now() - time.start])
  time.at(time.start + 90_000, note('minutes'))
  time.at(time.start + 5, note('first'))
  time.at(time.start + 5, note('second'))
  time.at(time.start + 1_000, note('next second'))
  time.runUntil(time.start + 90_000)
  assert.deepEqual(ran, [
    ['first', 5],
    ['second', 5],
    ['next second', 1_000],
    ['minutes', 90_000],
  ])
})

test('a deadline that has passed runs soon, but not inside the call that sets it', () => {
  const time = new VirtualTime()
  let ran = false
  time.at(time.start - 1, () => {
    ran = true
  })
  assert.equal(ran, false)
  time.runUntil(time.start)
  assert.equal(ran, true)
})

test('a deadline that was prevented does not run', () => {
  const time = new VirtualTime()
  const prevent = time.at(time.start + 10, () => assert.fail('it ran'))
  prevent()
  time.runUntil(time.start + 20)
})

test('an end between two milliseconds does not stop time', () => {
  const time = new VirtualTime()
  time.runUntil(time.start + 0.4)
  let ran = false
  time.at(time.start + 7, () => {
    ran = true
  })
  time.runUntil(time.start + 10)
  assert.equal(ran, true)
})
