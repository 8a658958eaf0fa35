/** Removal of secrets from foreign texts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scrub } from './scrub.ts'

test('secrets, and what looks like one, are replaced wherever they stand', () => {
  assert.equal(scrub('token s.abc, again s.abc', ['s.abc', '']), 'token [secret], again [secret]')
  assert.equal(scrub('sent Bearer abc.def to', []), 'sent bearer [token] to')
  assert.equal(scrub('got eyJhbGciOi.eyJzdWI', []), 'got [token]')
  assert.equal(scrub('-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nx', []), '[private key] x')
})

test('a secret that crosses the end of the shown text is not shown in part', () => {
  assert.doesNotMatch(scrub(`${'x '.repeat(145)}s.secret-token`, ['s.secret-token']), /s\.|token/)
})

test('it is one line of at most 300 characters, without what grpc-js adds to nothing', () => {
  assert.equal(scrub('  no\n\tconnection. Resolution note: ', []), 'no connection')
  assert.equal(scrub('a '.repeat(1_000), []).length, 299)
})

test('texts that invite backtracking take no longer than others', { timeout: 60_000 }, () => {
  for (const part of ['.', '. ', 'bearer ', '-----BEGIN ', '-----BEGIN PRIVATE KEY-----', 'eyJ', '. Resolution note:'])
    assert.ok(scrub(`${part.repeat(1_000_000 / part.length)}x`, []).length <= 300)
})
