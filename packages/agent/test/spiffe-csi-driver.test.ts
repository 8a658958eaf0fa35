/** SPIFFE's CSI driver, as its project ships it, mounts the folder of the socket into a pod that may not mount a hostPath. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import { Client, credentials } from '@grpc/grpc-js'
import { until } from './envoy-bench.ts'
import { asUser, inGroup, withFolder } from './launchers.ts'
import { podResource } from './pod-api-server.ts'
import { noSharedNode, startNode } from './shared-node.ts'

const DRIVER = join(process.env['LIVERY_PEERS'] ?? '', 'spiffe-csi-driver')
const FETCH = fileURLToPath(new URL('fetch-secrets.ts', import.meta.url))
const skip = noSharedNode || (existsSync(DRIVER) ? false : 'LIVERY_PEERS names no folder with spiffe-csi-driver')

/** Envoy's user in Istio's sidecar. */
const PROXY = 1_337
const PATIENCE_MS = 10_000

test('a pod gets its identity through the volume that the driver mounts, also after a restart of the agent', {
  skip,
}, async t => {
  await using node = await startNode()
  const { api, groupOf, cwd, socket } = node
  const csiSocket = join(cwd, 'csi.sock')
  // Its mounts end with it.
  const driver = spawn(
    'unshare',
    [
      ...['--mount', DRIVER, '-node-id', 'node-1', '-csi-socket-path', csiSocket],
      ...['-workload-api-socket-dir', dirname(socket)],
    ],
    { stdio: 'ignore' },
  )
  t.after(async () => {
    driver.kill('SIGKILL')
    await once(driver, 'exit')
  })
  await until('the driver listens', async () => existsSync(csiSocket) || undefined, PATIENCE_MS)
  const web = podResource({ name: 'web', serviceAccount: 'web' })
  api.put(web)
  const target = join(cwd, 'kubelet/pods', web.metadata.uid, 'volumes/kubernetes.io~csi/livery/mount')
  await mkdir(dirname(target), { recursive: true })
  await publish(csiSocket, target)

  const mounted = join(cwd, 'mounted')
  const inPod = [
    ...['nsenter', '--mount', `--target=${driver.pid}`],
    ...withFolder(target, mounted),
    ...inGroup(groupOf(web.metadata.uid)),
    ...asUser(PROXY),
    ...[process.execPath, '--conditions=@livery/source', FETCH, join(mounted, 'socket'), 'default', 'ROOTCA'],
  ]
  const ask = async () => {
    const [command = '', ...words] = inPod
    const { stdout } = await promisify(execFile)(command, words, { cwd: '/' })
    return stdout.trim()
  }
  assert.equal(await ask(), 'default with key, ROOTCA')
  await node.restart()
  assert.equal(await ask(), 'default with key, ROOTCA')
})

/** `NodePublishVolume` of csi.proto (Container Storage Interface 1.x), as kubelet calls it for an ephemeral volume. */
async function publish(socket: string, target: string): Promise<void> {
  const capability = new BinaryWriter()
  capability.uint32(18).fork().join() // mount
  capability.uint32(26).fork().uint32(8).int32(1).join() // access_mode: SINGLE_NODE_WRITER
  const request = new BinaryWriter()
  request.uint32(10).string('csi-1') // volume_id
  request.uint32(34).string(target) // target_path
  request.uint32(42).bytes(capability.finish()) // volume_capability
  request.uint32(48).bool(true) // readonly
  request.uint32(66).fork().uint32(10).string('csi.storage.k8s.io/ephemeral').uint32(18).string('true').join() // volume_context
  const client = new Client(`unix:${socket}`, credentials.createInsecure())
  try {
    await new Promise<void>((resolve, reject) =>
      client.makeUnaryRequest(
        '/csi.v1.Node/NodePublishVolume',
        () => Buffer.from(request.finish()),
        () => ({}),
        {},
        error => (error ? reject(error) : resolve()),
      ),
    )
  } finally {
    client.close()
  }
}
