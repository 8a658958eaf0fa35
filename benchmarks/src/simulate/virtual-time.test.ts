import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualTime } from './virtual-time.ts'

test('deadlines run at their time, in order, across seconds', async () => {
  const time = new VirtualTime()
  const ran: (readonly [name: string, ms: number])[] = []
  const note = (name: string) => () => void ran.push([name, time.now() - time.start])
  time.at(time.start + 90_000, note('minutes'))
  time.at(time.start + 5, note('first'))
  time.at(time.start + 5, note('second'))
  time.at(time.start + 1_000, note('next second'))
  await time.runUntil(time.start + 90_000)
  assert.deepEqual(ran, [
    ['first', 5],
    ['second', 5],
    ['next second', 1_000],
    ['minutes', 90_000],
  ])
})

test('a deadline that has passed runs soon, but not inside the call that sets it', async () => {
  const time = new VirtualTime()
  let ran = false
  time.at(time.start - 1, () => {
    ran = true
  })
  assert.equal(ran, false)
  await time.runUntil(time.start)
  assert.equal(ran, true)
})

test('what a deadline of a clock started goes on in promises before the next one runs', async () => {
  const time = new VirtualTime()
  const order: string[] = []
  const work = async () => {
    for (let step = 0; step < 10; step++) await undefined
    order.push('promised')
  }
  time.clock().at(time.start + 1, () => void work())
  time.at(time.start + 2, () => void order.push('later'))
  await time.runUntil(time.start + 2)
  assert.deepEqual(order, ['promised', 'later'])
})

test('a deadline that was disposed does not run', async () => {
  const time = new VirtualTime()
  const deadline = time.at(time.start + 10, () => assert.fail('it ran'))
  deadline[Symbol.dispose]()
  await time.runUntil(time.start + 20)
})

test('an end between two milliseconds does not stop time', async () => {
  const time = new VirtualTime()
  await time.runUntil(time.start + 0.4)
  let ran = false
  time.at(time.start + 7, () => {
    ran = true
  })
  await time.runUntil(time.start + 10)
  assert.equal(ran, true)
})

test('the clock of a node runs ahead by its offset', async () => {
  const time = new VirtualTime()
  const ahead = time.clock(600_000)
  assert.equal(ahead.now(), time.start + 600_000)
  let at = 0
  ahead.at(time.start + 601_000, () => {
    at = time.now()
  })
  await time.runUntil(time.start + 5_000)
  assert.equal(at, time.start + 1_000)
})
