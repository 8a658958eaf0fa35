/** The agent on a SPIFFE Workload API, behind two Envoys: a stand-in always, a real SPIRE where a variable names its programs. */
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { SystemClock } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { noSpire, Spire } from '../../ca-plugins/test/spire-process.ts'
import { svidsOf, WorkloadApiStandIn } from '../../ca-plugins/test/workload-api-stand-in.ts'
import { noEnvoy, until } from './envoy-bench.ts'
import { API, rotateUnderTraffic, WEB } from './envoy-rotation.ts'

test('two Envoys do mutual TLS with identities that a Workload API pushes, through a break and a new root, and no request fails', {
  skip: noEnvoy,
}, async t => {
  const folder = temporaryFolder(t)
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  await using server = await WorkloadApiStandIn.start(join(folder, 'workload.sock'))
  const give = async (): Promise<void> =>
    server.give(await svidsOf(ca, [WEB, API], 30), { 'cluster.local': ca.trustBundle() })
  await give()
  // New ones long before the agent would look for them: whatever rotates was pushed.
  let task: Disposable | undefined
  const rotate = (): void => {
    task = clock.at(clock.now() + 3_000, () => void give().then(rotate))
  }
  rotate()
  using _rotation = { [Symbol.dispose]: () => task?.[Symbol.dispose]() }
  await rotateUnderTraffic({
    ca: async () => ({ plugin: 'spiffe', address: server.address }),
    settings: { rotation: { settle: '1s' } },
    async between() {
      const opened = server.opened.length
      server.reset()
      await until('both streams are open again', async () => server.opened.length >= opened + 2 || undefined)
      await ca.addRoot()
      await give()
      await ca.switchRoot()
      await give()
    },
  })
})

test('two Envoys do mutual TLS with identities of a real SPIRE, through a new root, and no request fails', {
  skip: noEnvoy || noSpire,
}, async t => {
  const folder = temporaryFolder(t)
  await using spire = await Spire.start(folder)
  for (const identity of [WEB, API]) await spire.register(identity, 12)
  await rotateUnderTraffic({
    ca: async () => ({ plugin: 'spiffe', address: spire.address }),
    settings: { rotation: { settle: '1s' } },
    between: async () => void (await spire.switchRoot()),
  })
})
