import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rememberToken } from './known-secrets.ts'
import { scrub } from './scrub.ts'

test('a token that was remembered is in no text, until 64 others have come', () => {
  const token = (number: number) => `opaque/token+${number}/of=the/CA`
  for (let number = 0; number < 64; number++) rememberToken(token(number))
  const quote = (number: number) => scrub(`it says ${token(number)} and ${encodeURIComponent(token(number))}`)
  for (const number of [0, 63]) assert.equal(quote(number), 'it says [secret] and [secret]')
  rememberToken(token(0))
  rememberToken(token(64))
  assert.equal(quote(0), 'it says [secret] and [secret]', 'it was used again')
  assert.notEqual(quote(1), 'it says [secret] and [secret]')
})

test('a token that is as short as a word is not looked for in texts of others', () => {
  rememberToken('unknown')
  assert.equal(scrub('unknown authority'), 'unknown authority')
  rememberToken('opaque-8')
  assert.equal(scrub('opaque-8 is refused'), '[secret] is refused')
})
