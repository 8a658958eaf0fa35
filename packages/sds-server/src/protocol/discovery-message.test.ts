import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TrustBundleSecret } from '@livery/core'
import { MemorySource } from '../../test/memory-source.ts'
import { API, WEB } from '../../test/running-server.ts'
import { MessageComposer } from './discovery-message.ts'
import type { NamedSecret } from './response-content.ts'
import { sotwEncoder } from './secret-encoding.ts'

async function secrets(): Promise<{ readonly web: NamedSecret; readonly api: NamedSecret }> {
  const source = await MemorySource.create(WEB, API)
  const [web, api] = [WEB, API].map(name => {
    const item = source.current({ kind: 'identity', identity: name })
    assert.ok(item)
    return { name, item }
  })
  assert.ok(web && api)
  return { web, api }
}

test('streams that get the same secret get the same message, in the same bytes', async () => {
  const { web } = await secrets()
  const messages = new MessageComposer('e')
  const encoder = sotwEncoder()
  const first = messages.compose([web], [], 0)
  const alone = encoder.encodeMessage(first)
  const second = messages.compose([{ ...web }], [], 0)
  assert.equal(second, first)
  const shared = encoder.encodeMessage(second)
  assert.deepEqual(shared, alone)
  assert.equal(encoder.encodeMessage(messages.compose([web], [], 0)), shared)
})

test('streams that get the same certificate behind the bundle of others get the same message', async () => {
  const { web, api } = await secrets()
  const bundle = new TrustBundleSecret({ name: 'b', version: '1', trustedCa: Buffer.alloc(0) })
  const root = { name: 'ROOTCA', item: bundle }
  const messages = new MessageComposer('e')
  const first = messages.compose([root, web], [], 0)
  messages.compose([root, api], [], 0)
  assert.equal(messages.compose([root, web], [], 0), first)
  assert.equal(messages.compose([root, web], [], first.number).version, first.version)
})

test('a stream that had a message gets the same secret again under its own nonce', async () => {
  const { web } = await secrets()
  const messages = new MessageComposer('e')
  const first = messages.compose([web], [], 0)
  const again = messages.compose([web], [], first.number)
  assert.notEqual(again.nonce, first.nonce)
  assert.ok(again.number > first.number)
})

test('other names, other secrets and removals make other messages', async () => {
  const { web, api } = await secrets()
  const messages = new MessageComposer('e')
  const composed = [
    messages.compose([web], [], 0),
    messages.compose([{ ...web, name: 'default' }], [], 0),
    messages.compose([web, api], [], 0),
    messages.compose([web], ['gone'], 0),
    messages.compose([], ['gone'], 0),
    messages.compose([api], [], 0),
  ]
  assert.equal(new Set(composed.map(({ nonce }) => nonce)).size, composed.length)
  assert.deepEqual(
    composed.map(({ resources, removed }) => [resources.map(({ name }) => name), removed]),
    [
      [[WEB], []],
      [['default'], []],
      [[WEB, API], []],
      [[WEB], ['gone']],
      [[], ['gone']],
      [[API], []],
    ],
  )
})
