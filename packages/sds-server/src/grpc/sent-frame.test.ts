import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerHttp2Stream } from 'node:http2'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '@livery/core/testing'
import { listening, TemporaryFolder } from '@livery/test-support'
import { MemorySource } from '../../test/memory-source.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { WEB } from '../../test/running-server.ts'
import { testBudget } from '../../test/test-budget.ts'
import { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { sotwEncoder } from '../protocol/secret-encoding.ts'
import { Http2Call } from './http2-call.ts'

const UNSENT = new UnsentMemory(new Socket(), testBudget())

const source = await MemorySource.create(WEB)
const item = source.current({ kind: 'identity', identity: WEB })

function frameOfKey(encoder = sotwEncoder()): ResponseFrame {
  assert.ok(item)
  return encoder.encodeMessage({ nonce: 'n', version: 'v', resources: [{ name: WEB, item }], removed: [] })
}

const hasKey = (frame: ResponseFrame): boolean => frame.bytes.includes('-----BEGIN PRIVATE KEY-----')

/** Bytes that were written to the kernel or given up are released within a few turns of the event loop. */
async function isReleased(frame: ResponseFrame): Promise<boolean> {
  for (let turn = 0; turn < 10_000 && hasKey(frame); turn++) await nextTurn()
  return !hasKey(frame)
}

/** A server whose first stream is a call. */
async function startCalls() {
  await using parts = new AsyncDisposableStack()
  const { path: directory } = parts.use(new TemporaryFolder())
  const path = join(directory, 's.sock')
  const opened = Promise.withResolvers<{ readonly call: Http2Call; readonly stream: ServerHttp2Stream }>()
  const server = parts.use(await listening(createServer(), path))
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    opened.resolve({ call: new Http2Call(stream, headers, new FakeClock()), stream })
  })
  const stack = parts.move()
  return { path, opened: opened.promise, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

test('a frame is wiped when it was written, and arrives as it was', async () => {
  await using server = await startCalls()
  using peer = new RawPeer(server.path)
  const stream = peer.open()
  stream.ask(WEB)
  const frame = frameOfKey()
  const written = Promise.withResolvers<void>()
  const { call } = await server.opened
  call.sendFrame(frame, UNSENT, written.resolve)
  assert.ok(item?.kind === 'certificate')
  const start = frame.bytes.indexOf(item.privateKey.open(key => Buffer.from(key)))
  assert.ok(start > 0)
  const response = await stream.next()
  await written.promise
  assert.deepEqual(new Set(frame.bytes.subarray(start, start + item.privateKey.byteLength)), new Set([0]))
  assert.match(response.resources[0]?.value.toString('latin1') ?? '', /-----BEGIN PRIVATE KEY-----/)
})

for (const [how, end] of [
  ['its stream is reset', (peer: RawPeer, stream: ReturnType<RawPeer['open']>) => void (peer && stream.http.close(8))],
  ['its connection breaks', (peer: RawPeer) => peer[Symbol.dispose]()],
] as const)
  test(`a frame that its peer does not read is wiped when ${how}`, async () => {
    await using server = await startCalls()
    using peer = new RawPeer(server.path, { initialWindowSize: 0 })
    const stream = peer.open()
    stream.ask(WEB)
    const { call } = await server.opened
    const frame = frameOfKey()
    call.sendFrame(frame, UNSENT, () => assert.fail('it was never written'))
    await peer.pinged()
    assert.ok(hasKey(frame))
    end(peer, stream)
    assert.ok(await isReleased(frame))
  })

test('the memory of a frame serves the next one when all of it was written', async () => {
  await using server = await startCalls()
  using peer = new RawPeer(server.path)
  const stream = peer.open()
  stream.ask(WEB)
  const encoder = sotwEncoder()
  const [first, second] = [frameOfKey(encoder), frameOfKey(encoder)]
  const written = Promise.withResolvers<void>()
  const { call } = await server.opened
  call.sendFrame(first, UNSENT, written.resolve)
  await written.promise
  assert.equal(frameOfKey(encoder).bytes.buffer, first.bytes.buffer)
  assert.notEqual(second.bytes.buffer, first.bytes.buffer)
  await stream.next()
})

test('the memory of a frame that was written in part, and then its stream reset, serves no other one', async () => {
  await using server = await startCalls()
  using peer = new RawPeer(server.path, { initialWindowSize: 100 })
  const stream = peer.open()
  stream.ask(WEB)
  const encoder = sotwEncoder()
  const frame = frameOfKey(encoder)
  const { call } = await server.opened
  call.sendFrame(frame, UNSENT, () => assert.fail('it was never written whole'))
  await peer.pinged()
  stream.http.close(8)
  assert.ok(await isReleased(frame))
  assert.notEqual(frameOfKey(encoder).bytes.buffer, frame.bytes.buffer)
})

test('a frame for a stream that has ended is wiped at once', async () => {
  await using server = await startCalls()
  const peer = new RawPeer(server.path)
  peer.open().ask(WEB)
  const { call, stream } = await server.opened
  const closed = once(stream, 'close')
  peer[Symbol.dispose]()
  await closed
  const frame = frameOfKey()
  call.sendFrame(frame, UNSENT, () => assert.fail('it was never written'))
  assert.equal(hasKey(frame), false)
})
