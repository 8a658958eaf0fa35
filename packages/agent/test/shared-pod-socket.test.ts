/** The program in a pod of its own: it learns its pods from an API server, and serves all of them on one socket. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { ControlGroups, groupPath, noControlGroups } from './control-groups.ts'
import { inGroup, noMounts, withAccount } from './launchers.ts'
import { LiveryProcess, makeDirectory } from './livery-process.ts'
import { NODE, PodApiServer, podResource } from './pod-api-server.ts'
import { type PodAnswer, StartedPod } from './pod-process.ts'

const skip = noControlGroups || noMounts

interface SharedNode extends AsyncDisposable {
  readonly api: PodApiServer
  readonly agent: LiveryProcess
  /** The one for all pods. */
  readonly socket: string
  /** The one in the folder of a pod. */
  socketOf(uid: string): string
  /** The control group of the container of a pod, made on demand. */
  groupOf(uid: string): string
}

/** Starts the program in a pod of a node whose pods `api` lists. Dispose the processes of pods first. */
async function startNode(kubernetes: object = {}): Promise<SharedNode> {
  await using parts = new AsyncDisposableStack()
  const { path: cwd } = parts.use(await makeDirectory())
  const groups = parts.use(new ControlGroups())
  const api = parts.use(await PodApiServer.start())
  await api.mountAccount(cwd)
  const groupOf = (uid: string) => groups.make(groupPath(uid))
  const config = {
    ca: { plugin: 'embedded' },
    kubernetes: { nodeName: NODE, sockets: { root: 'pods' }, ...kubernetes },
    sockets: [{ path: 'sds.sock', identify: 'kubernetes' }],
    admin: { address: '127.0.0.1:0' },
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const agent = parts.use(
    new LiveryProcess(['run'], {
      cwd,
      env: api.environment,
      launcher: [...inGroup(groupOf(randomUUID())), ...withAccount(cwd)],
    }),
  )
  assert.match(await agent.line(/socket .*sds\.sock/), /to each pod its identity \(callers: pods\)/)
  const all = parts.move()
  return {
    api,
    agent,
    socket: join(cwd, 'sds.sock'),
    socketOf: uid => join(cwd, 'pods', uid, 'socket'),
    groupOf,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

const identityOf = (name: string) => ({ identities: { default: `spiffe://cluster.local/ns/default/sa/${name}` } })

/** What `default` is on a socket, as soon as it is there. */
async function askWhenServed(pod: StartedPod, socket: string): Promise<PodAnswer> {
  for (;;) {
    const answer = await pod.ask(socket, 'default')
    if ('identities' in answer) return answer
  }
}

test('pods that an API server lists share one socket: each has its identity, and loses it with its end', {
  skip,
}, async () => {
  await using node = await startNode()
  const { api, agent, socket, groupOf } = node
  const [web, db] = ['web', 'db'].map(name => podResource({ name, serviceAccount: name }))
  assert.ok(web && db)
  api.put(web)
  await using webProcess = await StartedPod.start(groupOf(web.metadata.uid))
  await using dbProcess = await StartedPod.start(groupOf(db.metadata.uid))
  assert.deepEqual(await webProcess.ask(socket, 'default'), identityOf('web'))
  // It runs before the API server has reported it.
  const answer = dbProcess.ask(socket, 'default')
  api.put(db)
  assert.deepEqual(await answer, identityOf('db'))
  api.delete(web)
  await agent.line(/"event":"pod-removed"/)
  assert.ok('failure' in (await webProcess.ask(socket, 'default')))
  await agent.line(new RegExp(`"event":"connection-refused".*"subject":"pod ${web.metadata.uid}".*"unknown-caller"`))
})

test('the network of the node changes nothing: such a pod has its folder and its control group, as one with its own network', {
  skip,
}, async () => {
  await using node = await startNode()
  const { api, socket, groupOf, socketOf } = node
  const web = podResource({ name: 'web', serviceAccount: 'web' })
  const proxy = podResource({ name: 'proxy', serviceAccount: 'proxy' })
  api.put(web)
  api.put({ ...proxy, spec: { ...proxy.spec, hostNetwork: true } })
  await using apart = await StartedPod.startWithOwnNetwork(groupOf(web.metadata.uid))
  await using onHost = await StartedPod.start(groupOf(proxy.metadata.uid))
  const networkOf = (pid: number) => readlinkSync(`/proc/${pid}/ns/net`)
  assert.notEqual(networkOf(apart.pid), networkOf(process.pid))
  assert.equal(networkOf(onHost.pid), networkOf(process.pid))
  for (const [pod, { metadata }, name] of [
    [apart, web, 'web'],
    [onHost, proxy, 'proxy'],
  ] as const) {
    assert.deepEqual(await pod.ask(socket, 'default'), identityOf(name))
    assert.deepEqual(await askWhenServed(pod, socketOf(metadata.uid)), identityOf(name))
  }
})

test('a static pod has the identity of its mirror, under the UID that the node gave it', { skip }, async () => {
  const uid = 'a1b2c3d4e5f60718293a4b5c6d7e8f90'
  await using node = await startNode({ identity: 'spiffe://{trustDomain}/ns/{namespace}/pod/{pod}' })
  const { api, socket, groupOf, socketOf } = node
  const annotations = { 'kubernetes.io/config.mirror': uid, 'kubernetes.io/config.hash': uid }
  const mirror = podResource({ name: 'etcd-node-1', namespace: 'kube-system', serviceAccount: '', annotations })
  api.put(mirror)
  await using pod = await StartedPod.start(groupOf(uid))
  const expected = { identities: { default: 'spiffe://cluster.local/ns/kube-system/pod/etcd-node-1' } }
  assert.deepEqual(await pod.ask(socket, 'default'), expected)
  assert.deepEqual(await askWhenServed(pod, socketOf(uid)), expected)
  assert.ok('failure' in (await pod.ask(socketOf(mirror.metadata.uid), 'default')))
})
