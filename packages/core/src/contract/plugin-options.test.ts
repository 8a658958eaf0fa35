import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../testing/fake-clock.ts'
import { TestCA } from '../testing/test-ca.ts'
import { defineCAPlugin } from './ca-plugin.ts'

test('a plugin gets its configuration typed by its options', async () => {
  const plugin = defineCAPlugin({
    apiVersion: 1,
    name: 'typed',
    capabilities: { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] },
    options: {
      address: { type: 'string', required: true, description: 'host:port' },
      mode: { type: 'string', choices: ['fast', 'safe'], default: 'safe', description: 'how' },
      tokenFile: { type: 'path', description: 'a file' },
      timeout: { type: 'duration', default: '10s', description: 'how long' },
      headers: { type: 'map', description: 'sent along' },
      pair: {
        type: 'object',
        description: 'two files',
        options: { certFile: { type: 'path', required: true, description: 'one' } },
      },
    },
    create({ clock }, config) {
      // The following is checked by tsc: `npm run typecheck` is the test.
      const address: string = config.address
      const mode: 'fast' | 'safe' = config.mode
      const tokenFile: string | undefined = config.tokenFile
      const timeoutMs: number = config.timeout
      const headers: Readonly<Record<string, string>> | undefined = config.headers
      const certFile: string | undefined = config.pair?.certFile
      // @ts-expect-error it may be missing
      const missing: string = config.tokenFile
      assert.deepEqual(
        [address, mode, tokenFile, timeoutMs, headers, certFile, missing],
        ['a:1', 'fast', undefined, 5, undefined, undefined, undefined],
      )
      return TestCA.create(clock)
    },
  })
  const context = {
    clock: new FakeClock(),
    trustDomain: 'cluster.local',
    log: { debug: assert.fail, info: assert.fail, warn: assert.fail, error: assert.fail },
    metrics: { counter: assert.fail },
  }
  await using _client = await plugin.create(context, { address: 'a:1', mode: 'fast', timeout: 5 })
})
