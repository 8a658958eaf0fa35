/** The program on a node of Kubernetes: a process in a mount namespace where its service account is mounted, pods at a stand-in of the API server. */
import assert from 'node:assert/strict'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fetchAsProxy, fetchInPod, identityAt, identityWhenServed, startOnNode } from './kubernetes-node.ts'
import { asUser, noMounts as skip } from './launchers.ts'
import { LiveryProcess, makeDirectory } from './livery-process.ts'
import { podResource } from './pod-api-server.ts'

/** That of the Helm chart. */
const AGENT = 15_100

test('a pod is served in its folder as its own user, while the API server is away too, and no longer than it lives', {
  skip,
}, async t => {
  const node = await startOnNode(t)
  const web = podResource({ name: 'web-0' })
  const other = podResource({ name: 'other', labels: {} })
  node.server.put(web)
  node.server.put(other)
  const agent = node.start()
  const admin = await agent.admin()
  await agent.line(/"event":"pods-known".*this node has 2 pods, 1 with an identity/)
  const socket = node.socketOf(web.metadata.uid)
  while ((await ready(admin)).status !== 200) await new Promise(setImmediate)
  assert.equal(await identityWhenServed(socket), 'URI:spiffe://cluster.local/ns/default/sa/web')

  // As the pod's user sees it, where only its own folder is mounted.
  const pod = { folder: join(node.root, web.metadata.uid), mounted: join(node.cwd, 'mounted') }
  assert.equal(await fetchInPod(pod, 'default'), 'default with key')
  assert.doesNotMatch(await fetchInPod(pod, 'spiffe://cluster.local/ns/default/sa/api'), /key/)
  // Other users of the node have no way to it.
  assert.match(await fetchAsProxy(socket, 'default'), /refused/)

  await node.server.down()
  await agent.line(/"event":"pods-away"/)
  const { status, text } = await ready(admin)
  assert.deepEqual([status, /not counted:\n {2}pods that come or go are not seen/.test(text)], [200, true])
  assert.match(await metrics(admin), /livery_pods_watch_state\{state="away"\} 1/)
  assert.match(await identityAt(socket), /sa\/web/)

  node.server.delete(web)
  await node.server.up()
  await agent.line(/"event":"pod-removed".*"pod":"default\/web-0"/)
  while ((await readdir(node.root)).length > 0) await new Promise(setImmediate)
})

test('the folder of a pod outlives the agent, whose next run serves it again and removes those of pods that went', {
  skip,
}, async t => {
  const [stays, goes] = [podResource({ name: 'stays' }), podResource({ name: 'goes' })]
  const node = await startOnNode(t, {
    prepare(server) {
      server.put(stays)
      server.put(goes)
    },
  })
  const first = node.start()
  for (const pod of [stays, goes]) await identityWhenServed(node.socketOf(pod.metadata.uid))
  first.kill('SIGTERM')
  await first.ended
  assert.deepEqual((await readdir(node.root)).sort(), [stays, goes].map(({ metadata }) => metadata.uid).sort())

  node.server.delete(goes)
  const second = node.start()
  await second.line(/"event":"pods-known"/)
  await identityWhenServed(node.socketOf(stays.metadata.uid))
  assert.deepEqual(await readdir(node.root), [stays.metadata.uid])
})

test('an agent that takes over serves the sockets of the pods without a gap', { skip }, async t => {
  const pods = Array.from({ length: 20 }, (_, index) => podResource({ name: `web-${index}` }))
  const node = await startOnNode(t, {
    config: { store: { directory: 'store' } },
    prepare(server) {
      for (const pod of pods) server.put(pod)
    },
  })
  const sockets = pods.map(({ metadata }) => node.socketOf(metadata.uid))
  const first = node.start()
  for (const socket of sockets) await identityWhenServed(socket)

  const second = node.start('--takeover')
  // In a pod the first one stays, so that kubelet does not start it again.
  let isOver = false
  const drained = first.line(/another agent serves now: draining/).then(() => {
    isOver = true
  })
  let answers = 0
  const askAll = async () => {
    for (const socket of sockets) answers += (await identityAt(socket)).length > 0 ? 1 : 0
  }
  while (!isOver) await askAll()
  await drained
  for (let round = 0; round < 10; round++) await askAll()
  t.diagnostic(`${answers} answers, none missing, while one took over from the other`)
  assert.equal(answers % sockets.length, 0)
  second.kill('SIGTERM')
  await second.ended
  assert.equal((await readdir(node.root)).length, pods.length)
})

test('an agent that no list has reached is not ready, and says what it is refused and how to allow it', {
  skip,
}, async t => {
  const node = await startOnNode(t, {
    prepare(server) {
      server.fault = () => ({ status: 403, message: 'pods is forbidden' })
    },
  })
  const agent = node.start()
  const admin = await agent.admin()
  await agent.line(/"event":"pods-unknown".*Grant the verb list on pods to this user by a ClusterRole/)
  const { status, text } = await ready(admin)
  assert.deepEqual([status, /the list of the pods of this node: .*HTTP 403/.test(text)], [503, true])
})

test('a folder that kubelet made first, for root, is opened to its pod by an agent of another user, and goes with the pod', {
  skip,
}, async t => {
  const node = await startOnNode(t, { user: asUser(AGENT, 'chown', 'dac_override') })
  const agent = node.start()
  await agent.line(/"event":"pods-known"/)
  const web = podResource({ name: 'web-0' })
  const folder = join(node.root, web.metadata.uid)
  await mkdir(folder, { mode: 0o700 })
  node.server.put(web)
  await identityWhenServed(join(folder, 'socket'))
  assert.equal(await fetchInPod({ folder, mounted: join(node.cwd, 'mounted') }, 'default'), 'default with key')
  assert.doesNotMatch(agent.stderr, /"level":"error"/)
  node.server.delete(web)
  while ((await readdir(node.root)).length > 0) await new Promise(setImmediate)
})

test('outside of a pod the section is refused at the start', async t => {
  const directory = await makeDirectory()
  t.after(() => directory[Symbol.asyncDispose]())
  const file = join(directory.path, 'livery.yaml')
  const kubernetes = { nodeName: 'n', sockets: { root: join(directory.path, 'pods') } }
  await writeFile(file, JSON.stringify({ ca: { plugin: 'embedded' }, admin: { address: '127.0.0.1:0' }, kubernetes }))
  const agent = new LiveryProcess(['run', '--config', file], { cwd: directory.path })
  t.after(() => agent[Symbol.asyncDispose]())
  const { code } = await agent.ended
  assert.notEqual(code, 0)
  assert.match(agent.stderr, /KUBERNETES_SERVICE_HOST is not set.*Remove the section kubernetes, or run it in a pod/)
})

async function ready(admin: string): Promise<{ readonly status: number; readonly text: string }> {
  const answer = await fetch(`http://${admin}/healthz/ready`)
  return { status: answer.status, text: await answer.text() }
}

async function metrics(admin: string): Promise<string> {
  return await (await fetch(`http://${admin}/metrics`)).text()
}
