/** Frames of HTTP/2 from a CA, in any order, whole and damaged: the call ends with an answer or an error, and nothing is left over. */
import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { SystemClock } from '@livery/core/plugin'
import { listening, portOf } from '@livery/test-support'
import fc from 'fast-check'
import { literalHeaders, rawFrame, uint32 } from '../../../sds-server/test/raw-http2.ts'
import { GrpcConnection } from '../../src/transport/grpc-connection.ts'

let frames = Buffer.alloc(0)
let isClosing = false
const server = createServer(socket => {
  socket.on('error', () => {})
  // A client speaks first.
  socket.once('data', () => send(socket))
})
await listening(server)
const clock = new SystemClock()
const target = { host: '127.0.0.1', port: portOf(server), serverName: 'ca', plaintext: true, material: {} }

const text = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.integer({ min: 1, max: 3_000 }).map(length => 'a'.repeat(length)),
)
const header: fc.Arbitrary<readonly string[]> = fc.tuple(
  fc.constantFrom(
    ':status',
    'content-type',
    'grpc-status',
    'grpc-message',
    'grpc-encoding',
    'grpc-status-details-bin',
    'retry-after',
    'connection',
    'x-bin',
    ':path',
    '',
  ),
  fc.oneof(text, fc.constantFrom('200', '503', '0', '14', '99', '-1', 'application/grpc', 'gzip', '%', '%zz', '%00')),
)
const headers: fc.Arbitrary<readonly (readonly string[])[]> = fc
  .array(header, { maxLength: 5 })
  .map(others => [[':status', '200'], ['content-type', 'application/grpc'], ...others])
const bareHeaders: typeof headers = fc.array(header, { maxLength: 4 })
const stream = fc.constantFrom(1, 1, 1, 1, 0, 2, 3, 2 ** 31 - 1)
const number = fc.constantFrom(0, 1, 2, 7, 8, 65_535, 2 ** 31 - 1, 2 ** 32 - 1)
const frame = fc.oneof(
  fc.record({
    type: fc.constant(1),
    flags: fc.constantFrom(4, 4, 5, 0),
    stream,
    headers: fc.oneof(headers, bareHeaders),
  }),
  fc.record({ type: fc.constant(5), flags: fc.constantFrom(4, 0), stream, headers }),
  fc.record({
    type: fc.constant(0),
    flags: fc.constantFrom(0, 1, 8),
    stream,
    message: fc.uint8Array({ maxLength: 30 }),
    length: fc.option(number),
  }),
  fc.record({
    type: fc.constantFrom(3, 8, 7),
    flags: fc.constant(0),
    stream,
    numbers: fc.array(number, { maxLength: 2 }),
  }),
  fc.record({
    type: fc.constant(4),
    flags: fc.constantFrom(0, 1),
    stream: fc.constant(0),
    settings: fc.array(fc.tuple(fc.nat(9), number), { maxLength: 3 }),
  }),
  fc.record({ type: fc.nat(12), flags: fc.nat(255), stream, bytes: fc.uint8Array({ maxLength: 30 }) }),
)

export const inputs = fc.record({
  begins: fc.constantFrom(true, true, true, false),
  frames: fc.array(frame, { maxLength: 8 }),
  damage: fc.option(fc.record({ at: fc.nat(200), bytes: fc.uint8Array({ minLength: 1, maxLength: 4 }) }), { freq: 8 }),
  isClosing: fc.boolean(),
})

/** How long a CA is waited for that says nothing. */
const PATIENCE_MS = 30

/** A client, a server and the compiler share the thread. */
export const maxCpuMs = 200

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never

export async function run(input: Input): Promise<void> {
  const begin = input.begins ? [rawFrame(4, 0, 0, Buffer.alloc(0))] : []
  frames = Buffer.concat([
    ...begin,
    ...input.frames.map(sent => rawFrame(sent.type, sent.flags, sent.stream, payloadOf(sent))),
  ])
  if (input.damage) Buffer.from(input.damage.bytes).copy(frames, input.damage.at)
  isClosing = input.isClosing
  const connection = new GrpcConnection({ target, clock })
  const call = connection.call({
    path: '/ca.CA/Sign',
    request: Buffer.from('x'),
    headers: [],
    signal: AbortSignal.timeout(PATIENCE_MS),
  })
  await call.then(checkAnswer, checkError)
  connection.close()
}

function checkAnswer(answer: Buffer): void {
  assert.ok(answer.length <= 1_048_576)
}

function checkError(error: unknown): void {
  assert.ok(error instanceof Error)
}

function send(socket: Socket): void {
  socket.write(frames)
  if (isClosing) socket.end()
}

function payloadOf(sent: Input['frames'][number]): Buffer {
  if ('headers' in sent) return literalHeaders(...sent.headers)
  if ('message' in sent) {
    const length = sent.length ?? sent.message.length
    return Buffer.concat([Buffer.from([0]), uint32(length), Buffer.from(sent.message)])
  }
  if ('settings' in sent)
    return Buffer.concat(sent.settings.map(([key, value]) => Buffer.concat([Buffer.from([0, key]), uint32(value)])))
  return 'numbers' in sent ? Buffer.concat(sent.numbers.map(uint32)) : Buffer.from(sent.bytes)
}
