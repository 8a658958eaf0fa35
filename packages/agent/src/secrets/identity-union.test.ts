import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SpiffeId } from '@livery/core/plugin'
import { type HeldIdentities, IdentityUnion } from './identity-union.ts'

const WEB = 'spiffe://cluster.local/web'
const API = 'spiffe://cluster.local/api'

/** The identities held, with their token files. */
function createUnion() {
  const held = new Map<SpiffeId, string | undefined>()
  const union = new IdentityUnion({
    add: (id, { tokenFile } = {}) => void held.set(id, tokenFile),
    remove: id => assert.ok(held.delete(id), `${id} was not held`),
  })
  return { held, union }
}

function named(...entries: readonly (readonly [SpiffeId, string?])[]): HeldIdentities {
  return new Map(entries.map(([id, tokenFile]) => [id, { tokenFile }]))
}

test('an identity is held until neither source names it, whichever lets go first', () => {
  for (const [first, second] of [
    ['configuration', 'kubernetes'],
    ['kubernetes', 'configuration'],
  ] as const) {
    const { held, union } = createUnion()
    assert.deepEqual(union.replace('configuration', named([WEB])), { added: [WEB], removed: [] })
    assert.deepEqual(union.replace('kubernetes', named([WEB], [API])), { added: [API], removed: [] })
    assert.ok(union.isHeldBeside(first, WEB))
    union.replace(first, named())
    assert.ok(held.has(WEB))
    assert.ok(!union.isHeldBeside(second, WEB))
    assert.ok(union.replace(second, named()).removed.includes(WEB))
    assert.equal(held.size, 0)
  }
})

test("the configuration's token file goes before another source's, which is used where the configuration has none", () => {
  const { held, union } = createUnion()
  union.replace('kubernetes', named([WEB, '/pod']))
  assert.equal(held.get(WEB), '/pod')
  union.replace('configuration', named([WEB]))
  assert.equal(held.get(WEB), '/pod')
  assert.deepEqual(union.replace('configuration', named([WEB, '/list'])), { added: [], removed: [] })
  assert.equal(held.get(WEB), '/list')
  union.replace('configuration', named())
  assert.equal(held.get(WEB), '/pod')
})

test('an identity that stays the same is not touched', () => {
  const { held, union } = createUnion()
  union.replace('configuration', named([WEB, '/list']))
  held.set(WEB, 'untouched')
  union.replace('configuration', named([WEB, '/list'], [API]))
  union.replace('kubernetes', named([WEB, '/pod']))
  assert.equal(held.get(WEB), 'untouched')
})

test("the configuration's wish goes before another source's, and a changed wish is passed on", () => {
  const added: unknown[] = []
  const union = new IdentityUnion({ add: (_, { wish } = {}) => void added.push(wish?.dnsNames), remove: () => {} })
  const wishing = (name: string): HeldIdentities => new Map([[WEB, { wish: { dnsNames: [name] } }]])
  union.replace('kubernetes', wishing('pod.example'))
  union.replace('configuration', named([WEB]))
  union.replace('configuration', wishing('list.example'))
  union.replace('kubernetes', wishing('other.example'))
  union.replace('configuration', named())
  assert.deepEqual(added, [['pod.example'], ['list.example'], ['other.example']])
})
