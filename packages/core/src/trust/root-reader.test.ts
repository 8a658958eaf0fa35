import assert from 'node:assert/strict'
import { test } from 'node:test'
import { garbleNotBefore } from '../../test/garble-date.ts'
import { makeIssuer } from '../testing/test-ca.ts'
import { RootReader } from './root-reader.ts'

const NOW = Date.UTC(2026, 0, 1)

test('a root with a date that cannot be read is refused, and nothing waits for that date', async () => {
  const { pem } = await makeIssuer('CN=garbled', NOW)
  const read = await new RootReader().read([garbleNotBefore(pem)], NOW)
  assert.deepEqual([read.roots, read.validFrom], [[], undefined])
  assert.match(read.rejected.join(), /^root with serial [0-9A-F]+ has a date that cannot be read$/)
})

test('the list that was read last is known at once, while it is the same and valid', async () => {
  const [one, two] = await Promise.all([makeIssuer('CN=one', NOW), makeIssuer('CN=two', NOW)])
  const reader = new RootReader()
  const list = [one.pem]
  assert.equal(reader.sameAsLast(list, NOW), undefined)
  const read = await reader.read(list, NOW)
  assert.equal(reader.sameAsLast([one.pem], NOW), read)
  const [root] = read.roots
  assert.equal(reader.sameAsLast([one.pem], root?.notAfter ?? 0), undefined)
  list[0] = two.pem
  assert.equal(reader.sameAsLast(list, NOW), undefined)
  assert.equal(reader.sameAsLast([one.pem, two.pem], NOW), undefined)
  assert.equal((await reader.read([two.pem, 'no root'], NOW)).rejected.length, 1)
  assert.equal(reader.sameAsLast([two.pem, 'no root'], NOW), undefined)
})
