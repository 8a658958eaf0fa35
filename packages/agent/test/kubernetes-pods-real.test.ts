/** The pods of a node at a real API server, which LIVERY_KUBE names: no kubelet is needed for pods that are bound to a node. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiConnection, ObjectsApi, ObjectWatcher, PodLogin } from '@livery/ca-plugins/kubernetes-api'
import { SystemClock } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { NodePods, podsOf } from '../src/kubernetes/node-pods.ts'
import { KubeAdmin, noKube } from './kube-admin.ts'
import { KubeNodes } from './kube-nodes.ts'
import { podRules } from './watched-pods.ts'

/** More than a page. */
const PODS = 100

test('pods that are made, labelled, ended and deleted at a real API server are followed', { skip: noKube }, async t => {
  const kube = new KubeAdmin()
  const nodes = await KubeNodes.make(kube)
  t.after(() => nodes[Symbol.asyncDispose]())
  const { name } = nodes
  for (const account of ['livery', 'web', 'api']) await nodes.addAccount(account)
  for (let index = 0; index < PODS; index++)
    await nodes.createPod({ name: `pod-${index}`, account: index % 2 ? 'web' : 'api' })
  await nodes.createPod({ name: 'elsewhere', account: 'web', node: nodes.otherNode })

  const directory = temporaryFolder(t)
  await kube.mountAccount(directory, name, 'livery')
  Object.assign(process.env, kube.environment)
  const clock = new SystemClock()
  const login = new PodLogin('', directory)
  const connection = new ApiConnection(login, clock)
  const api = new ObjectsApi({ ...podsOf(name), connection, clock })
  const pods = new NodePods(name, podRules(), problem => assert.fail(JSON.stringify(problem)))
  let wake = () => {}
  const watcher = new ObjectWatcher({ api, table: pods, clock, onState: () => wake() })
  pods.changes.subscribe(() => wake())
  t.after(async () => {
    await watcher[Symbol.asyncDispose]()
    await connection[Symbol.asyncDispose]()
    clock[Symbol.dispose]()
  })
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise<void>(resolve => (wake = resolve))
  }
  const find = (pod: string) => [...pods.all()].find(each => each.name === pod)

  // Without the right the error says which one it is; the next attempt has it.
  await until(() => watcher.state.kind === 'unknown' && watcher.state.error !== undefined)
  assert.match(JSON.stringify(watcher.state), /HTTP 403: .*Grant the verb list on pods/)
  await nodes.allow('livery', [{ apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] }])
  await until(() => pods.isListed)
  assert.deepEqual(pods.counts, { known: PODS, chosen: PODS })
  assert.equal(find('pod-1')?.identity, `spiffe://cluster.local/ns/${name}/sa/web`)

  const begun = performance.now()
  await nodes.createPod({ name: 'late', account: 'web' })
  await until(() => find('late') !== undefined)
  t.diagnostic(`a new pod was known ${Math.round(performance.now() - begun)} ms after it was asked for`)
  const unlabelled = { metadata: { labels: { 'livery.dev/inject': null } } }
  await kube.call('PATCH', `/api/v1/namespaces/${name}/pods/late`, unlabelled)
  await until(() => find('late')?.identity === undefined)
  await nodes.reportPod('pod-0', 'Failed')
  await until(() => find('pod-0') === undefined)

  // Made again by its name, with another account.
  const before = find('pod-1')?.uid
  await nodes.deletePod('pod-1')
  await nodes.createPod({ name: 'pod-1', account: 'api' })
  await until(() => find('pod-1') !== undefined && find('pod-1')?.uid !== before)
  assert.equal(find('pod-1')?.identity, `spiffe://cluster.local/ns/${name}/sa/api`)
  for (let index = 0; index < PODS; index++) await nodes.deletePod(`pod-${index}`)
  await nodes.deletePod('late')
  await until(() => pods.counts.known === 0)

  // A version from before what the server remembers.
  const first: unknown[] = []
  for await (const { type, object } of api.watch('1', AbortSignal.timeout(10_000))) {
    first.push(type, Object(object).code)
    break
  }
  t.diagnostic(`a watch from version 1 gave ${JSON.stringify(first)}`)
})
