import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readWatchEvents, type WatchEvent } from './watch-events.ts'

const EVENTS: readonly WatchEvent[] = [
  { type: 'ADDED', object: { name: 'größer', text: 'a\n\u2028b' } },
  { type: 'BOOKMARK', object: {} },
  { type: 'DELETED', object: [1] },
]
const BYTES = Buffer.from(EVENTS.map(event => `${JSON.stringify(event)}\n`).join('\n'))

async function* cutInto(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size)
}

async function all(events: AsyncIterable<WatchEvent>): Promise<WatchEvent[]> {
  const read: WatchEvent[] = []
  for await (const event of events) read.push(event)
  return read
}

test('events are the same wherever the body is cut, and one that was cut off is not read', async () => {
  for (let size = 1; size <= BYTES.length; size++)
    assert.deepEqual(await all(readWatchEvents(cutInto(BYTES, size))), EVENTS)
  const torn = BYTES.subarray(0, BYTES.length - 3)
  assert.deepEqual(await all(readWatchEvents(cutInto(torn, 7))), EVENTS.slice(0, 2))
})

test('a line without an end is given up at 4 MiB, or at 4,096 pieces', async () => {
  async function* endless(piece: Buffer) {
    for (;;) yield piece
  }
  for (const [size, reason] of [
    [65_536, /a line has more than 4194304 characters/],
    [1, /a line has more than 4096 pieces/],
  ] as const)
    await assert.rejects(all(readWatchEvents(endless(Buffer.alloc(size, 'x')))), reason)
})

test('between the events of a flood others have their turns', async () => {
  const line = Buffer.from('{"type":"BOOKMARK","object":{}}\n')
  async function* flood() {
    for (let chunk = 0; chunk < 100; chunk++) yield Buffer.alloc(line.length * 1_000, line)
  }
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  let read = 0
  for await (const _ of readWatchEvents(flood())) read++
  isOver = true
  assert.deepEqual([read, turns > 300], [100_000, true])
})
