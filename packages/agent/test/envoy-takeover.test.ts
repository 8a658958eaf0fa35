/** Agents that take over from each other under traffic between real Envoys, whose certificates continue to rotate. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { noEnvoy } from './envoy-bench.ts'
import { startUnderTraffic } from './envoy-rotation.ts'
import { LiveryProcess } from './livery-process.ts'

for (const delta of [false, true])
  test(`three agents in a row, and no request between Envoys fails (${delta ? 'Delta' : 'SotW'})`, {
    skip: noEnvoy,
  }, async () => {
    await using run = await startUnderTraffic({
      ca: async () => ({ plugin: 'embedded', directory: 'ca' }),
      settings: { ttl: '8s', store: { directory: 'store' }, drain: '500ms' },
      delta,
    })
    await run.shown(2)
    const takeOver = () =>
      new LiveryProcess(['--json', 'run', '--config', join(run.folder, 'livery.yaml'), '--takeover'], {
        cwd: run.folder,
      })
    await using second = takeOver()
    await second.admin()
    await run.agent.exited
    assert.equal(run.agent.child.exitCode, 0)
    await run.shown(4)
    await using third = takeOver()
    await third.admin()
    assert.deepEqual(await second.ended, { code: 0, signal: null })
    await run.shown(6)
    await run.stop()
  })
