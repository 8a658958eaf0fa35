import assert from 'node:assert/strict'
import { test } from 'node:test'
import { discoveryRequest, readResponse, SECRET_TYPE_URL } from './discovery-messages.ts'

const field = (number: number, ...parts: readonly (Buffer | string)[]) => {
  const body = Buffer.concat(parts.map(part => Buffer.from(part)))
  const length = body.length < 128 ? [body.length] : [(body.length & 0x7f) | 0x80, body.length >> 7]
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), body])
}
const any = (secret: Buffer) => field(2, field(1, SECRET_TYPE_URL), field(2, secret))

test('a certificate is read with its key, whatever its length', () => {
  const chain = 'chain '.repeat(40)
  const secret = Buffer.concat([field(1, 'web'), field(2, field(1, field(2, chain)), field(2, field(2, 'key')))])
  const response = Buffer.concat([field(1, 'v1'), any(secret), field(4, SECRET_TYPE_URL), field(5, 'n1')])
  assert.deepEqual(readResponse(response), {
    version: 'v1',
    nonce: 'n1',
    secrets: [{ kind: 'certificate', name: 'web', chain, privateKey: Buffer.from('key') }],
  })
})

test('roots are read, numbers between the fields are skipped', () => {
  const secret = Buffer.concat([
    field(1, 'ROOTCA'),
    Buffer.from([0x18, 0x96, 0x01]),
    field(4, field(1, field(2, 'pem'))),
  ])
  assert.deepEqual(readResponse(any(secret)).secrets, [{ kind: 'roots', name: 'ROOTCA', pem: 'pem' }])
})

test('a secret without a key is refused by name', () => {
  const secret = Buffer.concat([field(1, 'web'), field(2, field(1, field(2, 'chain')))])
  assert.throws(() => readResponse(any(secret)), /web has no key/)
})

test('a response that is cut off is refused', () => {
  assert.throws(() => readResponse(any(field(1, 'web')).subarray(0, -1)), /Cannot read the response/)
})

test('an ACK carries version and nonce, the first request its node', () => {
  const ack = readResponse(discoveryRequest('web', { version: 'v7', nonce: 'n7' }).subarray(0))
  assert.deepEqual([ack.version, ack.nonce], ['v7', 'n7'])
  assert.ok(discoveryRequest('web').includes('soak'))
})
