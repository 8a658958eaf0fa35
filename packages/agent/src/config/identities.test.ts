import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UNWRITTEN } from '../schema/config-error.ts'
import { Location, nodeOf } from '../schema/config-tree.ts'
import { Fault, faultText } from '../schema/fault.ts'
import { expandIdentities, expandRange } from './identities.ts'

test('ranges are bounded in all, refused entries included', () => {
  const range = { range: 'spiffe://other.example/{0..99999}', tokenFile: undefined }
  const at = new Location(nodeOf({}, UNWRITTEN), ['identities'])
  const { identities, problems } = expandIdentities(Array(1_000).fill(range), 'cluster.local', at)
  assert.equal(identities.length, 0)
  assert.match(problems[0]?.reason ?? '', /is not in the trust domain/)
  for (const { reason } of problems.slice(1)) assert.match(reason, /makes more than 100000 identities in all/)
})

test('a number that is too large to count with is refused', () => {
  for (const huge of ['9'.repeat(400), '9007199254740993']) {
    const refused = expandRange(`a-{${huge}..${huge}}`, 10)
    assert.match(refused instanceof Fault ? faultText(refused) : '', /has too large a number/)
  }
})
