/** Chains that the addon's threads cannot read. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { expectationOf } from '../test/corpus/case.ts'
import { leaf, root } from '../test/corpus/certificates.ts'
import { lookup } from './addon.ts'
import { NativeChainReader } from './native-chain-reader.ts'

const { addon } = lookup

test('chains that wait together are read on the main thread where the system refuses a thread', {
  skip: addon ? false : lookup.reason,
}, async () => {
  assert.ok(addon)
  class WithoutThreads extends addon.JobQueue {
    override readChains() {
      return Promise.reject(new Error('cannot start a thread of the addon: Resource temporarily unavailable'))
    }
  }
  const reader = new NativeChainReader({ ...addon, JobQueue: WithoutThreads })
  const read = () => reader.readLater([leaf(root)], expectationOf({}))
  for (const facts of await Promise.all([read(), read(), read()])) assert.ok('path' in facts && facts.keyMatches)
})
