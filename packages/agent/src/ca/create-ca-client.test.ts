/** Clients of a list of CAs, as the agent makes them from its configuration. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { workloadRequest } from '@livery/ca-plugins/testing'
import { type CAClient, SystemClock } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { type PluginModuleOptions, writePluginModule } from '../../test/plugin-module.ts'
import { loadCA } from '../config/load.ts'
import { createLogger } from '../observe/logger.ts'
import { PluginCounters } from '../observe/plugin-counters.ts'
import { Registry } from '../observe/prometheus.ts'
import { ConfigError } from '../schema/config-error.ts'
import { createCAClient } from './create-ca-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

async function create(t: TestContext, cas: readonly object[], module: PluginModuleOptions = {}): Promise<CAClient> {
  const folder = temporaryFolder(t)
  const file = join(folder, 'livery.yaml')
  await writePluginModule(folder, module)
  await writeFile(file, JSON.stringify({ ca: { plugin: 'failover', cas } }))
  const loaded = await loadCA({ file, environment: {}, workingDirectory: folder, terminal: false })
  const stack = new AsyncDisposableStack()
  t.after(() => stack.disposeAsync())
  const clock = stack.use(new SystemClock())
  const { logger } = stack.use(await createLogger({ level: 'silent', format: 'json' }))
  return await createCAClient(loaded, { clock, logger, counters: new PluginCounters(new Registry()) }, stack)
}

test('a CA of the list that does not answer is followed by one from a module, in its own process', async t => {
  const client = await create(t, [
    { plugin: 'citadel', address: '127.0.0.1:1', rootCert: 'system' },
    { plugin: './acme.mjs' },
  ])
  const { chain, roots, accepted } = await client.issue(await workloadRequest(WEB))
  accepted?.()
  assert.equal(chain.length, 1)
  assert.deepEqual(await client.trustBundle?.({ signal: new AbortController().signal }), roots)
})

test('the error for an unusable CA of the list names its path', async t => {
  const made = create(t, [{ plugin: 'embedded' }, { plugin: './acme.mjs' }], { onCreate: `throw new TypeError('no')` })
  await assert.rejects(made, (error: unknown) => {
    assert.ok(error instanceof ConfigError)
    assert.deepEqual(
      error.problems.map(({ path }) => path),
      ['ca.cas[1]'],
    )
    return true
  })
})
