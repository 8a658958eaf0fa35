import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSpiffeId, parseSpiffeId, trustDomainOf } from './spiffe-id.ts'

test('SPIFFE IDs of Istio and others are accepted as they are', () => {
  for (const id of [
    'spiffe://cluster.local/ns/default/sa/web',
    'spiffe://td-1.example_x/a.b-c_D',
    `spiffe://td/${'a'.repeat(2_000)}`,
  ]) {
    assert.ok(isSpiffeId(id), id)
  }
  assert.equal(trustDomainOf(parseSpiffeId('spiffe://cluster.local/ns/a/sa/b')), 'cluster.local')
})

test('an ID that differs in spelling is refused with the reason, never normalised', () => {
  const refused: readonly [string, RegExp][] = [
    ['', /does not start with "spiffe:/],
    ['SPIFFE://td/a', /does not start with/],
    ['https://td/a', /does not start with/],
    ['spiffe://td', /has no path/],
    ['spiffe:///a', /has a trust domain that is empty/],
    ['spiffe://TD/a', /has a trust domain that has a character/],
    ['spiffe://td:80/a', /has a trust domain that has a character/],
    ['spiffe://u@td/a', /has a trust domain that has a character/],
    ['spiffe://td/', /trailing slash/],
    ['spiffe://td/a//b', /empty path segment/],
    ['spiffe://td/a/../b', /relative path segment/],
    ['spiffe://td/./b', /relative path segment/],
    ['spiffe://td/a%2fb', /a character that SPIFFE IDs do not allow/],
    ['spiffe://td/a?b', /a character that/],
    ['spiffe://td/a\nb', /a character that/],
    [`spiffe://td/${'a'.repeat(2_048)}`, /longer than 2048/],
  ]
  for (const [text, reason] of refused) assert.throws(() => parseSpiffeId(text), reason, JSON.stringify(text))
})
