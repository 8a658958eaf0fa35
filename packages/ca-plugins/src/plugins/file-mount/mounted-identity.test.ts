import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { WatchedFiles } from '@livery/core'
import { Semaphore } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { identityOf } from '../../../test/mount-bench.ts'
import { writeSet } from '../../../test/mounted-files.ts'
import { FakeCA } from '../../conformance/index.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { FaultLog } from './fault-log.ts'
import { MountedIdentity } from './mounted-identity.ts'
import { MountedRoots } from './mounted-roots.ts'

/** Their files are read, and then waited with. */
class SlowRoots extends MountedRoots {
  readonly reached = Promise.withResolvers<void>()
  readonly held = Promise.withResolvers<void>()

  override async read(path: string): Promise<readonly string[]> {
    const roots = await super.read(path)
    this.reached.resolve()
    await this.held.promise
    return roots
  }
}

test('a key whose request is given up while the files are read is wiped', async t => {
  const clock = new FakeClock()
  const { log } = pluginContext({ clock })
  const folder = temporaryFolder(t)
  using ca = await FakeCA.create({ clock })
  const identity = identityOf('web')
  writeSet(folder, await ca.bring(identity))
  using watched = new WatchedFiles(clock, error => assert.fail(String(error)), 30_000)
  const shared = { clock, watched, reads: new Semaphore(1), faults: new FaultLog(log), warn: log.warn, onChange() {} }
  using roots = new SlowRoots({ ...shared, areChains: false })
  const files = { chain: join(folder, 'cert-chain.pem'), key: join(folder, 'key.pem') }
  const rootsFile = join(folder, 'root-cert.pem')
  using mounted = new MountedIdentity({
    ...shared,
    identity,
    files,
    rootsFile,
    roots,
    hasOwnRoots: false,
    onUnused() {},
  })

  const { mock } = t.mock.method(Buffer, 'alloc')
  const keys = () => mock.calls.filter(({ result }) => result?.includes('PRIVATE KEY')).length
  const controller = new AbortController()
  const refused = assert.rejects(mounted.read(controller.signal), /nobody waits/)
  await roots.reached.promise
  assert.equal(keys(), 1)
  controller.abort(new Error('nobody waits'))
  await refused
  roots.held.resolve()
  await setImmediate()
  assert.equal(keys(), 0)
})
