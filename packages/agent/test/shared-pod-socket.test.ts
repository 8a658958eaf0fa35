/** The program in a pod of its own: it learns its pods from an API server, and serves all of them on one socket. */
import assert from 'node:assert/strict'
import { readlinkSync } from 'node:fs'
import { test } from 'node:test'
import { podResource } from './pod-api-server.ts'
import { StartedPod } from './pod-process.ts'
import { noSharedNode as skip, startNode } from './shared-node.ts'

const identityOf = (name: string) => ({ identities: { default: `spiffe://cluster.local/ns/default/sa/${name}` } })

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

test('the network of the node changes nothing: such a pod has its control group, as one with its own network', {
  skip,
}, async () => {
  await using node = await startNode()
  const { api, socket, groupOf } = node
  const web = podResource({ name: 'web', serviceAccount: 'web' })
  const proxy = podResource({ name: 'proxy', serviceAccount: 'proxy' })
  api.put(web)
  api.put({ ...proxy, spec: { ...proxy.spec, hostNetwork: true } })
  await using apart = await StartedPod.startWithOwnNetwork(groupOf(web.metadata.uid))
  await using onHost = await StartedPod.start(groupOf(proxy.metadata.uid))
  const networkOf = (pid: number) => readlinkSync(`/proc/${pid}/ns/net`)
  assert.notEqual(networkOf(apart.pid), networkOf(process.pid))
  assert.equal(networkOf(onHost.pid), networkOf(process.pid))
  assert.deepEqual(await apart.ask(socket, 'default'), identityOf('web'))
  assert.deepEqual(await onHost.ask(socket, 'default'), identityOf('proxy'))
})

test('a static pod has the identity of its mirror, under the UID that the node gave it', { skip }, async () => {
  const uid = 'a1b2c3d4e5f60718293a4b5c6d7e8f90'
  await using node = await startNode({ identity: 'spiffe://{trustDomain}/ns/{namespace}/pod/{pod}' })
  const { api, socket, groupOf } = node
  const annotations = { 'kubernetes.io/config.mirror': uid, 'kubernetes.io/config.hash': uid }
  const mirror = podResource({ name: 'etcd-node-1', namespace: 'kube-system', serviceAccount: '', annotations })
  api.put(mirror)
  await using pod = await StartedPod.start(groupOf(uid))
  const expected = { identities: { default: 'spiffe://cluster.local/ns/kube-system/pod/etcd-node-1' } }
  assert.deepEqual(await pod.ask(socket, 'default'), expected)
})
