import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readInside } from '@livery/core/plugin'
import { element, extension, objectIdentifier, time } from './der.ts'

test('lengths of one, two and three bytes are written and read back', () => {
  for (const length of [0, 1, 127, 128, 255, 256, 16_000]) {
    const inner = element(0x04, Buffer.alloc(length, 7))
    assert.deepEqual(readInside(element(0x30, inner, element(0x05)))[0]?.der, inner)
  }
  assert.throws(() => element(0x04, Buffer.alloc(65_536)), RangeError)
})

test('object identifiers are written in base 128', () => {
  assert.equal(objectIdentifier('1.2.840.113549.1.1.11').toString('hex'), '06092a864886f70d01010b')
  assert.equal(objectIdentifier('2.5.29.17').toString('hex'), '0603551d11')
})

test('times are UTCTime until 2049 and GeneralizedTime after', () => {
  assert.equal(time(new Date('2049-12-31T23:59:59Z')).toString('latin1', 2), '491231235959Z')
  assert.equal(time(new Date('2050-01-01T00:00:00Z')).toString('latin1', 2), '20500101000000Z')
})

test('only a critical extension says so', () => {
  assert.equal(extension('2.5.29.14', false, Buffer.of(1)).toString('hex'), '30080603551d0e040101')
  assert.equal(extension('2.5.29.14', true, Buffer.of(1)).toString('hex'), '300b0603551d0e0101ff040101')
})
