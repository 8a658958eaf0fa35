import assert from 'node:assert/strict'
import { test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { isStatus } from './grpc-status.ts'
import { MessageReader } from './message-reader.ts'

const MAX_BYTES = 1_000

function framed(message: Uint8Array, { flag = 0, length = message.length } = {}): Buffer {
  const prefix = Buffer.alloc(5)
  prefix[0] = flag
  prefix.writeUInt32BE(length, 1)
  return Buffer.concat([prefix, message])
}

function read(...parts: readonly Buffer[]): Buffer {
  const reader = new MessageReader(MAX_BYTES)
  for (const part of parts) reader.add(part)
  return reader.message()
}

function refused(code: status, details: RegExp) {
  return (error: unknown): true => {
    assert.ok(isStatus(error), String(error))
    assert.equal(error.code, code)
    assert.match(error.details, details)
    return true
  }
}

test('a message is read the same wherever its data is split', () => {
  const message = Buffer.from('a message of some length')
  const whole = framed(message)
  for (let at = 0; at <= whole.length; at++)
    assert.deepEqual(read(whole.subarray(0, at), whole.subarray(at)), message, `split at ${at}`)
  assert.deepEqual(read(...[...whole].map(byte => Buffer.of(byte))), message)
  assert.deepEqual(read(framed(Buffer.alloc(0))), Buffer.alloc(0))
  assert.deepEqual(read(framed(Buffer.alloc(MAX_BYTES, 7))), Buffer.alloc(MAX_BYTES, 7))
})

test('a message over the limit is refused by its length, before it is there', () => {
  const long = framed(Buffer.alloc(0), { length: MAX_BYTES + 1 })
  assert.throws(() => read(long), refused(status.RESOURCE_EXHAUSTED, /message larger than max \(1001 vs 1000\)/))
  assert.throws(() => read(long.subarray(0, 3), long.subarray(3)), refused(status.RESOURCE_EXHAUSTED, /larger/))
})

test('compressed messages, a second message and an answer that is cut off are refused', () => {
  const one = framed(Buffer.from('one'))
  assert.throws(() => read(framed(Buffer.from('zip'), { flag: 1 })), refused(status.INTERNAL, /compressed/))
  assert.throws(() => read(Buffer.concat([one, one])), refused(status.UNIMPLEMENTED, /more than one/))
  assert.throws(() => read(one, Buffer.of(0)), refused(status.UNIMPLEMENTED, /more than one/))
  assert.throws(() => read(framed(Buffer.alloc(0)), Buffer.of(0)), refused(status.UNIMPLEMENTED, /more than one/))
  for (let length = 1; length < one.length; length++)
    assert.throws(() => read(one.subarray(0, length)), refused(status.INTERNAL, /ended within/), `${length} bytes`)
  assert.throws(() => read(), refused(status.UNIMPLEMENTED, /No message received/))
})
