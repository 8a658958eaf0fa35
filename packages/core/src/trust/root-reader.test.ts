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
