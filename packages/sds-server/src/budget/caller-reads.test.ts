/** The sockets of a caller that spends its slice of a turn: all of them wait, and come back in order, a few in each turn. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { CallerReads, FRAME_COSTS } from './caller-reads.ts'

const SLICE = 64 * FRAME_COSTS.stream

function socketsOf(reads: CallerReads, count: number) {
  const reading = new Set<number>()
  const sockets = Array.from({ length: count }, (_, index) => {
    const source = { stopReading: () => reading.delete(index), startReading: () => reading.add(index) }
    reading.add(index)
    reads.add(source)
    return source
  })
  return { reading, sockets }
}

test('a caller below its slice is read without a break, turn after turn', async () => {
  const reads = new CallerReads()
  const { reading } = socketsOf(reads, 100)
  for (let turn = 0; turn < 10; turn++) {
    reads.spend(SLICE - 1)
    assert.equal(reading.size, 100)
    await nextTurn()
  }
})

test('one socket that spends the slice stops all of its caller, which come back in order', async () => {
  const reads = new CallerReads()
  const { reading } = socketsOf(reads, 100)
  reads.spend(SLICE)
  assert.equal(reading.size, 0)
  await nextTurn()
  assert.deepEqual([...reading], [...Array(16).keys()])
  while (reading.size < 100) await nextTurn()
})

test('what one read costs above the slice is paid in later turns', async () => {
  const reads = new CallerReads()
  const { reading } = socketsOf(reads, 1)
  reads.spend(5 * SLICE)
  let turns = 0
  for (; reading.size === 0; turns++) await nextTurn()
  assert.equal(turns, 5)
})

test('a connection that arrives meanwhile waits behind the others, and one that leaves is not read again', async () => {
  const reads = new CallerReads()
  const { reading, sockets } = socketsOf(reads, 16)
  reads.spend(SLICE)
  const { reading: late } = socketsOf(reads, 1)
  assert.equal(late.size, 0)
  if (sockets[3]) reads.delete(sockets[3])
  await nextTurn()
  assert.equal(reading.size, 15)
  assert.equal(late.size, 1)
})

test('nothing is read while a slice of streams waits to be opened', async () => {
  const reads = new CallerReads()
  const { reading } = socketsOf(reads, 1)
  reads.unopened = 64
  reads.spend(SLICE)
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  assert.equal(reading.size, 0)
  reads.unopened--
  await nextTurn()
  assert.equal(reading.size, 1)
})
