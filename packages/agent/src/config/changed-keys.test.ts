import assert from 'node:assert/strict'
import { test } from 'node:test'
import { key, object, section } from '../schema/schema-parts.ts'
import { flag } from '../schema/values.ts'
import { changedKeys, withoutLive } from './changed-keys.ts'

test('keys that differ are named by their paths, however deep, and lists as a whole', () => {
  const before = { ttl: '24h', rotation: { ratio: 0.5, jitter: 0.1 }, allow: ['a'], gone: 1, same: { a: [{ b: 1 }] } }
  const after = {
    ttl: '1h',
    rotation: { ratio: 0.6, jitter: 0.1 },
    allow: ['a', 'b'],
    come: 1,
    same: { a: [{ b: 1 }] },
  }
  assert.deepEqual(changedKeys(before, after), ['ttl', 'rotation.ratio', 'allow', 'gone', 'come'])
  assert.deepEqual(changedKeys({ x: 1 }, { x: 2 }, 'sockets[0]'), ['sockets[0].x'])
  assert.deepEqual(changedKeys({ a: 'off' }, { a: { cpu: 1 } }), ['a'])
})

test('the same has no changes, with and without a prototype', () => {
  const bare: object = Object.assign(Object.create(null), { a: { b: 1 } })
  assert.deepEqual(changedKeys({ a: { b: 1 } }, bare), [])
})

test('a key changes while the agent runs if its entry says so', () => {
  const schema = object({
    a: key('', flag, { live: true }),
    b: key('', flag),
    inner: section('', { c: key('', flag, { live: true }), d: key('', flag) }),
  })
  const tree = { a: true, b: true, inner: { c: true, d: true }, unknown: 1 }
  assert.deepEqual(withoutLive(schema, tree), { b: true, inner: { d: true }, unknown: 1 })
})
