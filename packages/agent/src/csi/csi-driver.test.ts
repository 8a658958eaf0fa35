/** The CSI driver, by a gRPC client over its socket, with mounts in a mount namespace of the test's own. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, open, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { status } from '@grpc/grpc-js'
import { SystemClock } from '@livery/core'
import { FakeClock } from '@livery/core/testing'
import { publishRequest, startKubelet, UID, webPod } from '../../test/csi-kubelet.ts'
import type { NodePublishVolumeRequest } from '../gen/csi/v1/csi.ts'
import { bindReadOnly, mountOn } from './bind-mount.ts'
import { socketAnswers } from './socket-answers.ts'

const OTHER = '00000000-0000-4000-8000-000000000002'
const { INVALID_ARGUMENT, FAILED_PRECONDITION, UNAVAILABLE, UNIMPLEMENTED, ABORTED, CANCELLED } = status

const isInside = process.env['LIVERY_TEST_NAMESPACE'] === 'mount'

/** Why nothing can be mounted here. */
function hindrance(): string | false {
  if (process.geteuid?.() !== 0) return 'mounts need root'
  const { status: code, error } = spawnSync('unshare', ['--mount', 'true'])
  return code === 0 ? false : `no mount namespace can be made here: ${error?.message ?? `unshare ended with ${code}`}`
}

if (isInside) testMounts()
else
  test('in a mount namespace of its own', { skip: hindrance() }, () => {
    const { NODE_TEST_CONTEXT: _, ...inherited } = process.env
    const env = { ...inherited, LIVERY_TEST_NAMESPACE: 'mount' }
    const program = [...process.execArgv.filter(flag => !flag.startsWith('--test')), fileURLToPath(import.meta.url)]
    const run = spawnSync('unshare', ['--mount', process.execPath, ...program], {
      env,
      encoding: 'utf8',
      timeout: 100_000,
    })
    assert.equal(run.status, 0, run.stdout + run.stderr)
    assert.match(run.stdout, /pass [1-9]/)
  })

function testMounts(): void {
  test('the folder of a pod is published read-only, and its socket answers there', async t => {
    const kubelet = await startKubelet(t)
    kubelet.pods.put(webPod())
    await kubelet.servePod()
    const target = await kubelet.targetOf()
    assert.deepEqual(await kubelet.publish(target), {})
    using clock = new SystemClock()
    // The whole path is longer than that of a socket may be.
    await using folder = await open(target)
    await socketAnswers(`/proc/self/fd/${folder.fd}/socket`, clock, AbortSignal.timeout(10_000))
    await folder.close()
    await assert.rejects(writeFile(join(target, 'x'), ''), { code: 'EROFS' })
    await assert.rejects(rm(join(target, 'socket')), { code: 'EROFS' })
    const mount = await mountOn(target)
    assert.ok(['ro', 'nosuid', 'nodev', 'noexec'].every(option => mount?.options.has(option)))
    assert.deepEqual(await kubelet.unpublish(target), {})
    assert.equal(existsSync(target), false)
    assert.deepEqual(await readdir(join(kubelet.sockets, UID)), ['socket'])
  })

  test('each call can come twice, and a volume of a pod without a folder is removed too', async t => {
    const kubelet = await startKubelet(t)
    kubelet.pods.put(webPod())
    const server = await kubelet.servePod()
    const target = await kubelet.targetOf()
    for (let times = 0; times < 2; times++) assert.deepEqual(await kubelet.publish(target), {})
    assert.equal(await mountCount(target), 1)
    server.close()
    kubelet.pods.delete(webPod())
    await rm(join(kubelet.sockets, UID), { recursive: true })
    for (let times = 0; times < 2; times++) assert.deepEqual(await kubelet.unpublish(target), {})
    assert.equal(await mountCount(target), 0)
    assert.equal(existsSync(target), false)
    await rm(dirname(target), { recursive: true })
    assert.deepEqual(await kubelet.unpublish(target), {})
  })

  test('a volume waits for its pod, for its folder and for its socket', async t => {
    const kubelet = await startKubelet(t)
    const target = await kubelet.targetOf()
    const published = kubelet.publish(target)
    const again = await kubelet.publish(target)
    assert.deepEqual(again, { code: ABORTED, details: 'another operation for this volume has not ended' })
    kubelet.pods.put(webPod())
    await kubelet.servePod()
    assert.deepEqual(await published, {})
    assert.equal(await mountCount(target), 1)
    assert.deepEqual(await kubelet.unpublish(target), {})
  })

  test('a bind that was not made read-only is completed, and another mount is left as it is', async t => {
    const kubelet = await startKubelet(t)
    kubelet.pods.put(webPod())
    await kubelet.servePod()
    const target = await kubelet.targetOf()
    await mkdir(target)
    spawnSync('mount', ['--bind', join(kubelet.sockets, UID), target])
    assert.deepEqual(await kubelet.publish(target), {})
    await assert.rejects(writeFile(join(target, 'x'), ''), { code: 'EROFS' })
    assert.deepEqual(await kubelet.unpublish(target), {})

    const other = join(kubelet.sockets, OTHER)
    await mkdir(other)
    await mkdir(target)
    await bindReadOnly(other, target)
    const wrong = await kubelet.publish(target)
    assert.ok('code' in wrong && wrong.code === status.INTERNAL && wrong.details.includes('something else is mounted'))
    const left = await kubelet.unpublish(target)
    assert.ok('code' in left && left.code === FAILED_PRECONDITION, JSON.stringify(left))
    assert.equal(await mountCount(target), 1)
    spawnSync('umount', [target])
  })
}

async function mountCount(target: string): Promise<number> {
  const text = await readFile('/proc/self/mountinfo', 'utf8')
  return text.split('\n').filter(line => line.split(' ')[4] === target).length
}

if (!isInside) {
  test('the driver names itself and its node, has no capabilities, and nothing else is implemented', async t => {
    const { call, csiSocket } = await startKubelet(t)
    const info = await call('/csi.v1.Identity/GetPluginInfo', {})
    assert.deepEqual(info, { name: 'csi.livery.dev', vendorVersion: '1.2.3' })
    assert.deepEqual(await call('/csi.v1.Node/NodeGetInfo', {}), { nodeId: 'node-1' })
    for (const method of ['Identity/Probe', 'Identity/GetPluginCapabilities', 'Node/NodeGetCapabilities'])
      assert.deepEqual(await call(`/csi.v1.${method}`, {}), {}, method)
    for (const method of ['Node/NodeStageVolume', 'Node/NodeGetVolumeStats', 'Controller/CreateVolume']) {
      const answer = await call(`/csi.v1.${method}`, {})
      assert.ok('code' in answer && answer.code === UNIMPLEMENTED, method)
    }
    assert.equal((await stat(csiSocket)).mode & 0o777, 0o600)
  })

  test('a pod that stays away is UNAVAILABLE after 20 s, with what is missing', async t => {
    const clock = new FakeClock(Date.now())
    const kubelet = await startKubelet(t, clock)
    const target = await kubelet.targetOf()
    const published = kubelet.publish(target)
    for (let looks = 0; looks < 100; looks++) {
      await clock.waitForDeadline(at => at <= clock.now() + 200)
      await clock.advance(200)
    }
    const details = 'the API server has not reported this pod as one of this node'
    assert.deepEqual(await published, { code: UNAVAILABLE, details })
    assert.deepEqual(kubelet.reports, [{ operation: 'publish', uid: UID, path: target, error: details }])
  })

  test('a call that kubelet cancels ends, and the next one for the volume is taken', async t => {
    const kubelet = await startKubelet(t)
    const target = await kubelet.targetOf()
    const ending = new AbortController()
    const cancelled = kubelet.call('/csi.v1.Node/NodePublishVolume', publishRequest(target), ending.signal)
    const busy = await kubelet.publish(target)
    assert.ok('code' in busy && busy.code === ABORTED)
    ending.abort()
    const answer = await cancelled
    assert.ok('code' in answer && answer.code === CANCELLED)
    while (kubelet.reports.length === 0) await new Promise(setImmediate)
    assert.deepEqual(await kubelet.unpublish(target), {})
  })

  test('a pod by another name or namespace, or without an identity, is refused at once', async t => {
    const kubelet = await startKubelet(t)
    const target = await kubelet.targetOf()
    kubelet.pods.put(webPod())
    const context = publishRequest(target).volumeContext
    for (const [key, value] of [
      ['pod.name', 'web-1'],
      ['pod.namespace', 'kube-system'],
    ]) {
      const volumeContext = { ...context, [`csi.storage.k8s.io/${key}`]: value ?? '' }
      const answer = await kubelet.publish(target, { volumeContext })
      assert.ok('code' in answer && answer.code === INVALID_ARGUMENT && answer.details.includes('by the API server'))
    }
    kubelet.pods.put(webPod({}))
    const answer = await kubelet.publish(target)
    assert.ok('code' in answer && answer.code === FAILED_PRECONDITION && answer.details.includes('has no identity'))
  })

  test('a request that kubelet would not make is refused', async t => {
    const kubelet = await startKubelet(t)
    kubelet.pods.put(webPod())
    await kubelet.servePod()
    const target = await kubelet.targetOf()
    const { volumeContext } = publishRequest(target)
    const without = (key: string) => ({ volumeContext: { ...volumeContext, [`csi.storage.k8s.io/${key}`]: '' } })
    const other = { ...volumeContext, 'csi.storage.k8s.io/pod.uid': OTHER }
    const cases: readonly (readonly [Partial<NodePublishVolumeRequest>, string])[] = [
      [{ volumeId: '' }, 'volume_id is missing'],
      [{ targetPath: '' }, 'target_path is missing'],
      [{ volumeCapability: undefined }, 'volume_capability is missing'],
      [{ volumeCapability: { accessType: { $case: 'block', value: {} } } }, 'not a block device'],
      [{ volumeCapability: { accessType: { $case: 'mount', value: { mountFlags: ['rw'] } } } }, 'mount_flags'],
      [{ readonly: false }, 'Write readOnly: true'],
      [{ volumeContext: { ...volumeContext, 'csi.storage.k8s.io/ephemeral': 'false' } }, 'inline only'],
      [without('pod.uid'), 'podInfoOnMount: true'],
      [without('pod.name'), 'podInfoOnMount: true'],
      [{ volumeContext: {} }, 'podInfoOnMount: true'],
      [{ volumeContext: other }, `target_path is in the folder of pod ${UID}, and the pod is ${OTHER}`],
    ]
    for (const [changes, expected] of cases) {
      const answer = await kubelet.publish(target, changes)
      assert.ok('code' in answer && answer.code === INVALID_ARGUMENT && answer.details.includes(expected), expected)
    }
    assert.equal(existsSync(target), false)
  })

  test('only the path that kubelet gives a volume is taken', async t => {
    const kubelet = await startKubelet(t)
    kubelet.pods.put(webPod())
    await kubelet.servePod()
    const { root } = kubelet
    const volumes = `${root}/pods/${UID}/volumes/kubernetes.io~csi`
    const paths = [
      'relative/mount',
      '/etc',
      `${volumes}/livery`,
      `${volumes}/livery/mount/`,
      `${volumes}/livery/mount/x`,
      `${volumes}/../mount`,
      `${volumes}/./mount`,
      `${volumes}//mount`,
      `${volumes}/a/../mount`,
      `${volumes}/a\n/mount`,
      `${volumes}/${'x'.repeat(64)}/mount`,
      `${root}/pods/../pods/${UID}/volumes/kubernetes.io~csi/livery/mount`,
      `${root}/pods/../volumes/kubernetes.io~csi/livery/mount`,
      `${root}/pods/${UID}/volumes/kubernetes.io~secret/livery/mount`,
      `${root}-other/pods/${UID}/volumes/kubernetes.io~csi/livery/mount`,
    ]
    for (const path of paths)
      for (const answer of [await kubelet.publish(path), await kubelet.unpublish(path)])
        assert.ok('code' in answer && answer.code === INVALID_ARGUMENT, `${path}: ${JSON.stringify(answer)}`)
  })

  test('a path that another user could lead elsewhere is refused, and so is a link in the place of the target', async t => {
    const kubelet = await startKubelet(t)
    kubelet.pods.put(webPod())
    await kubelet.servePod()
    const target = await kubelet.targetOf()
    await chmod(dirname(target), 0o777)
    for (const answer of [await kubelet.publish(target), await kubelet.unpublish(target)]) {
      assert.ok('code' in answer && answer.code === FAILED_PRECONDITION, JSON.stringify(answer))
      assert.ok(answer.details.includes('can be written by others'), answer.details)
    }
    await chmod(dirname(target), 0o750)
    await symlink('/etc', target)
    const answer = await kubelet.publish(target)
    assert.ok('code' in answer && answer.code === FAILED_PRECONDITION && answer.details.includes('is not a directory'))
  })
}
