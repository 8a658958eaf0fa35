import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { type LoadedConfig, loadConfig } from '../config/load.ts'
import { createLogger } from '../observe/logger.ts'
import { Registry } from '../observe/prometheus.ts'
import { ReloadMetrics } from '../observe/reload-metrics.ts'
import { ConfigReloader } from './config-reloader.ts'

const directory = temporaryFolder({ after })

async function loaded(): Promise<LoadedConfig> {
  const file = join(directory, 'livery.yaml')
  const ca = { plugin: 'embedded' }
  writeFileSync(file, JSON.stringify({ ca, identities: ['spiffe://cluster.local/web'], sockets: [{ path: '/sds' }] }))
  return await loadConfig({ file, environment: {}, workingDirectory: directory, terminal: false })
}

test('an agent that closes aborts the load of a configuration, and does not count it as a failure', async () => {
  const clock = new FakeClock()
  const started = await loaded()
  await using sink = await createLogger({ level: 'fatal', format: 'json' })
  const loading = Promise.withResolvers<AbortSignal>()
  const registry = new Registry()
  const reloader = new ConfigReloader({
    started: { ...started, file: undefined },
    load: signal => {
      loading.resolve(signal)
      return new Promise(() => {})
    },
    live: { apply: () => assert.fail('nothing was loaded') },
    clock,
    scopes: sink.scopes,
    log: { write: () => {} },
    metrics: new ReloadMetrics(registry),
    onReloaded: () => assert.fail('nothing is in force'),
  })
  const reloading = reloader.reload()
  const signal = await loading.promise
  assert.equal(signal.aborted, false)
  await reloader[Symbol.asyncDispose]()
  await reloading
  assert.equal(signal.aborted, true)
  // It was not refused.
  assert.match(await registry.metrics(), /livery_config_reload_total\{result="failure"\} 0/)
})

test('a reload of the same configuration says that it is in force, so that what failed is tried again', async () => {
  const clock = new FakeClock()
  const started = await loaded()
  await using sink = await createLogger({ level: 'fatal', format: 'json' })
  const same = {
    identitiesAdded: 0,
    identitiesRemoved: 0,
    socketsOpened: 0,
    socketsWaiting: 0,
    socketsClosed: 0,
    socketsChanged: 0,
    needsRestart: [],
  }
  let reloads = 0
  await using reloader = new ConfigReloader({
    started: { ...started, file: undefined },
    load: () => Promise.resolve(started),
    live: { apply: () => Promise.resolve(same) },
    clock,
    scopes: sink.scopes,
    log: { write: () => {} },
    metrics: new ReloadMetrics(new Registry()),
    onReloaded: () => reloads++,
  })
  await reloader.reload()
  assert.equal(reloads, 1)
})
