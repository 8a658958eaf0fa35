import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Server, ServerCredentials, ServerInterceptingCall, type ServerInterceptingCallInterface } from '@grpc/grpc-js'
import { MemorySource } from '../../test/memory-source.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { temporaryDirectory, WEB } from '../../test/running-server.ts'
import { testBudget } from '../../test/test-budget.ts'
import { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { sotwEncoder } from '../protocol/secret-encoding.ts'
import { http2StreamOf } from './grpc-js-internals.ts'
import { sendFrame } from './send-frame.ts'

const UNSENT = new UnsentMemory(new Socket(), testBudget())

const source = await MemorySource.create(WEB)
const item = source.current({ kind: 'identity', identity: WEB })

function frameOfKey(encoder = sotwEncoder()): ResponseFrame {
  assert.ok(item)
  return encoder.encode({ nonce: 'n', version: 'v', resources: [{ name: WEB, item }], removed: [] })
}

const hasKey = (frame: ResponseFrame): boolean => frame.bytes.includes('-----BEGIN PRIVATE KEY-----')

/** Bytes that were written to the kernel or given up are released within a few turns of the event loop. */
async function isReleased(frame: ResponseFrame): Promise<boolean> {
  for (let turn = 0; turn < 10_000 && hasKey(frame); turn++) await nextTurn()
  return !hasKey(frame)
}

/** A grpc-js server whose calls are taken as the SDS server takes them. */
async function startGrpc() {
  await using parts = new AsyncDisposableStack()
  const { path: directory } = parts.use(await temporaryDirectory())
  const calls: PromiseWithResolvers<ServerInterceptingCallInterface> = Promise.withResolvers()
  const server = new Server({
    interceptors: [
      (_method, call) => {
        calls.resolve(call)
        return new ServerInterceptingCall(call)
      },
    ],
  })
  const service = '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets'
  const asIs = (bytes: Buffer) => bytes
  server.register(
    service,
    () => {},
    (frame: ResponseFrame) => frame.message,
    asIs,
    'bidi',
  )
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const path = join(directory, 's.sock')
  const listener = createServer(socket => injector.injectConnection(socket)).listen(path)
  parts.defer(async () => {
    server.forceShutdown()
    listener.close()
    await once(listener, 'close')
  })
  await once(listener, 'listening')
  const stack = parts.move()
  return { path, call: calls.promise, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

test('the HTTP/2 stream is where this version of grpc-js has it', async () => {
  await using grpc = await startGrpc()
  using peer = new RawPeer(grpc.path)
  peer.open().ask(WEB)
  const call = await grpc.call
  assert.ok(
    http2StreamOf(call),
    'grpc-js has moved `stream`: keys would be left to the garbage collector until http2StreamOf finds it again',
  )
})

test('a frame is wiped when it was written, and arrives as it was', async () => {
  await using grpc = await startGrpc()
  using peer = new RawPeer(grpc.path)
  const stream = peer.open()
  stream.ask(WEB)
  const frame = frameOfKey()
  const written = Promise.withResolvers<void>()
  sendFrame(await grpc.call, frame, UNSENT, written.resolve)
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
    await using grpc = await startGrpc()
    using peer = new RawPeer(grpc.path, { initialWindowSize: 0 })
    const stream = peer.open()
    stream.ask(WEB)
    const call = await grpc.call
    const frame = frameOfKey()
    sendFrame(call, frame, UNSENT, () => assert.fail('it was never written'))
    await peer.pinged()
    assert.ok(hasKey(frame))
    end(peer, stream)
    assert.ok(await isReleased(frame))
  })

test('the memory of a frame serves the next one when all of it was written', async () => {
  await using grpc = await startGrpc()
  using peer = new RawPeer(grpc.path)
  const stream = peer.open()
  stream.ask(WEB)
  const encoder = sotwEncoder()
  const [first, second] = [frameOfKey(encoder), frameOfKey(encoder)]
  const written = Promise.withResolvers<void>()
  sendFrame(await grpc.call, first, UNSENT, written.resolve)
  await written.promise
  assert.equal(frameOfKey(encoder).bytes.buffer, first.bytes.buffer)
  assert.notEqual(second.bytes.buffer, first.bytes.buffer)
  await stream.next()
})

test('the memory of a frame of which a part was written, and then its stream reset, serves no other one', async () => {
  await using grpc = await startGrpc()
  using peer = new RawPeer(grpc.path, { initialWindowSize: 100 })
  const stream = peer.open()
  stream.ask(WEB)
  const encoder = sotwEncoder()
  const frame = frameOfKey(encoder)
  sendFrame(await grpc.call, frame, UNSENT, () => assert.fail('it was never written whole'))
  await peer.pinged()
  stream.http.close(8)
  assert.ok(await isReleased(frame))
  assert.notEqual(frameOfKey(encoder).bytes.buffer, frame.bytes.buffer)
})

test('a frame for a stream that has ended is wiped at once', async () => {
  await using grpc = await startGrpc()
  const peer = new RawPeer(grpc.path)
  peer.open().ask(WEB)
  const call = await grpc.call
  const stream = http2StreamOf(call)
  assert.ok(stream)
  const closed = once(stream, 'close')
  peer[Symbol.dispose]()
  await closed
  const frame = frameOfKey()
  sendFrame(call, frame, UNSENT, () => assert.fail('it was never written'))
  assert.equal(hasKey(frame), false)
})

test('without the HTTP/2 stream a frame goes through grpc-js, and is wiped as well', () => {
  const frame = frameOfKey()
  const sent: ResponseFrame[] = []
  const call = {
    sendMetadata() {},
    sendMessage(message: ResponseFrame, written: () => void) {
      sent.push(message)
      assert.ok(hasKey(message))
      written()
    },
  }
  let isWritten = false
  sendFrame(call, frame, UNSENT, () => {
    isWritten = true
  })
  assert.deepEqual([sent, isWritten, hasKey(frame)], [[frame], true, false])
})
