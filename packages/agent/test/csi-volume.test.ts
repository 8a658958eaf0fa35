/** The program as a CSI driver: kubelet's calls over its socket, and a pod that gets its certificate in the volume. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { CsiClient, makeTarget, UID, webPod } from './csi-kubelet.ts'
import { fetchInPod, startOnNode } from './kubernetes-node.ts'
import { noMounts } from './launchers.ts'

const skip =
  noMounts ||
  (spawnSync('nsenter', ['--version']).status === 0 ? false : 'needs nsenter, to see the mounts of the program')

test('a pod that starts gets its certificate in the volume that kubelet has the program publish, and nothing to write to', {
  skip,
}, async t => {
  const csi = { socket: 'kubelet/plugins/csi.sock', kubeletRoot: 'kubelet' }
  const node = await startOnNode(t, { config: { kubernetes: { sockets: { root: 'pods' }, csi } } })
  const kubelet = join(node.cwd, 'kubelet')
  await mkdir(join(kubelet, 'plugins'), { recursive: true, mode: 0o750 })
  const agent = node.start()
  await agent.admin()
  const viewer = agent.child.pid ?? 0
  using client = new CsiClient(join(node.cwd, csi.socket))
  const [info, nodeInfo] = [
    await client.call('/csi.v1.Identity/GetPluginInfo', {}),
    await client.call('/csi.v1.Node/NodeGetInfo', {}),
  ]
  assert.deepEqual([Object(info).name, Object(nodeInfo).nodeId], ['csi.livery.dev', 'node-1'])

  // kubelet may be quicker than the API server.
  const target = await makeTarget(kubelet)
  const published = client.publish(target)
  node.server.put(webPod())
  assert.deepEqual(await published, {})
  await agent.line(new RegExp(`"event":"volume-published".*"podUid":"${UID}"`))

  // As a container sees it, which the runtime starts from the mounts of kubelet.
  const pod = { folder: target, mounted: join(node.cwd, 'mounted'), viewer }
  assert.equal(await fetchInPod(pod, 'default'), 'default with key')
  assert.equal(await fetchInPod(pod, 'ROOTCA'), 'ROOTCA')
  assert.doesNotMatch(await fetchInPod(pod, 'spiffe://cluster.local/ns/default/sa/api'), /key/)
  const inside = (...words: readonly string[]) =>
    spawnSync('nsenter', ['--mount', `--target=${viewer}`, ...words], { encoding: 'utf8' })
  assert.match(inside('touch', join(target, 'x')).stderr, /Read-only file system/)
  assert.match(inside('rm', join(target, 'socket')).stderr, /Read-only file system/)

  node.server.delete(webPod())
  await agent.line(/"event":"pod-removed"/)
  assert.deepEqual(await client.unpublish(target), {})
  assert.equal(existsSync(target), false)
  while ((await readdir(node.root)).length > 0) await new Promise(setImmediate)
})
