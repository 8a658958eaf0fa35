import assert from 'node:assert/strict'
import { test } from 'node:test'
import { expandIdentities, expandRange } from './identities.ts'

test('ranges are bounded in all, those of refused entries too', () => {
  const range = { range: 'spiffe://other.example/{0..99999}', tokenFile: undefined }
  const { identities, findings } = expandIdentities(Array(1_000).fill(range), 'cluster.local')
  assert.equal(identities.length, 0)
  assert.match(findings[0]?.text ?? '', /is not in the trust domain/)
  for (const { text } of findings.slice(1)) assert.match(text, /makes more than 100000 identities in all/)
})

test('a number that is too large to count with is refused', () => {
  for (const huge of ['9'.repeat(400), '9007199254740993'])
    assert.match(String(expandRange(`a-{${huge}..${huge}}`, 10)), /has too large a number/)
})
