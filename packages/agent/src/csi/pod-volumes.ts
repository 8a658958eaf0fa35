/** Publishes the folder of a pod in the pod, as an ephemeral inline volume that can only be read. */
import { rmdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { status } from '@grpc/grpc-js'
import { type Clock, checkFolder, sleep, systemErrorCode } from '@livery/core'
import type { NodePublishVolumeRequest, NodeUnpublishVolumeRequest } from '../gen/csi/v1/csi.ts'
import type { Pod, PodTable } from '../kubernetes/pod.ts'
import { bindReadOnly, mountOn, unmount } from './bind-mount.ts'
import { CsiError } from './csi-error.ts'
import { socketAnswers } from './socket-answers.ts'
import { makeMountPoint, readTarget, resolveTarget, type VolumeTarget } from './volume-target.ts'

export interface PodVolumesOptions {
  readonly pods: Pick<PodTable, 'get'>
  readonly clock: Clock
  /** The folder of the folders of pods, and the name of the socket in each. */
  readonly sockets: { readonly root: string; readonly name: string }
  /** kubelet's `--root-dir`. */
  readonly kubeletRoot: string
}

/** kubelet waits 2 min for an answer, then begins again as it does after UNAVAILABLE. */
const PATIENCE_MS = 20_000
/** How soon a pod that is not ready is looked at again. */
const LOOK_MS = 200
const INFO = 'csi.storage.k8s.io/'

export class PodVolumes {
  readonly #options: PodVolumesOptions

  constructor(options: PodVolumesOptions) {
    this.#options = options
  }

  /** Resolves when the pod's folder is at the target. Rejects with a `CsiError`, or the signal's reason. */
  async publish(request: NodePublishVolumeRequest, target: VolumeTarget, signal: AbortSignal): Promise<void> {
    checkRequest(request)
    const { uid } = readPodInfo(request, target)
    const folder = join(this.#options.sockets.root, uid)
    await this.#untilServed(request, folder, signal)
    const path = resolveTarget(target.path)
    if (path === undefined)
      throw new CsiError(status.FAILED_PRECONDITION, `the folder of ${target.path} is not there: kubelet makes it`)
    makeMountPoint(path)
    try {
      await bindReadOnly(folder, path)
    } catch (error) {
      throw new CsiError(status.INTERNAL, `Cannot mount ${folder} on ${path}: ${messageOf(error)}`)
    }
  }

  /** Resolves when nothing is at the target, whether or not the pod and its folder are still there. */
  async unpublish({ uid, path: target }: VolumeTarget): Promise<void> {
    const path = resolveTarget(target)
    if (path === undefined) return
    const mount = await mountOn(path)
    if (mount && basename(mount.root.replace(/\/\/deleted$/, '')) !== uid)
      throw new CsiError(status.FAILED_PRECONDITION, `${mount.root} is mounted on ${path}, which is not of this driver`)
    try {
      if (mount) await unmount(path)
      rmdirSync(path)
    } catch (error) {
      if (systemErrorCode(error) === 'ENOENT') return
      throw new CsiError(status.INTERNAL, `Cannot unmount ${path}: ${messageOf(error)}`)
    }
  }

  /** Throws a `CsiError` (`INVALID_ARGUMENT`). */
  targetOf({ volumeId, targetPath }: NodePublishVolumeRequest | NodeUnpublishVolumeRequest): VolumeTarget {
    if (volumeId === '') throw new CsiError(status.INVALID_ARGUMENT, 'volume_id is missing')
    if (targetPath === '') throw new CsiError(status.INVALID_ARGUMENT, 'target_path is missing')
    return readTarget(targetPath, this.#options.kubeletRoot)
  }

  async #untilServed(request: NodePublishVolumeRequest, folder: string, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const end = clock.now() + PATIENCE_MS
    for (;;) {
      const problem = await this.#problemOf(request, folder, signal)
      if (problem === undefined) return
      if (clock.now() >= end) throw new CsiError(status.UNAVAILABLE, problem)
      await sleep(clock, LOOK_MS, signal)
    }
  }

  /** Why the pod cannot be served yet. Throws a `CsiError` if waiting does not help. */
  async #problemOf(
    { volumeContext }: NodePublishVolumeRequest,
    folder: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { pods, sockets, clock } = this.#options
    const pod = pods.get(basename(folder))
    if (!pod) return 'the API server has not reported this pod as one of this node'
    checkPod(pod, volumeContext)
    try {
      checkFolder(folder, { shared: false })
      await socketAnswers(join(folder, sockets.name), clock, signal)
      return undefined
    } catch (error) {
      signal.throwIfAborted()
      return `the socket in ${folder} does not answer: ${messageOf(error)}`
    }
  }
}

function checkRequest({ volumeCapability, readonly, volumeContext }: NodePublishVolumeRequest): void {
  const refuse = (reason: string) => new CsiError(status.INVALID_ARGUMENT, reason)
  const access = volumeCapability?.accessType
  if (access === undefined) throw refuse('volume_capability is missing')
  if (access.$case === 'block') throw refuse('this volume is a folder, and not a block device')
  if (access.value.mountFlags.length > 0) throw refuse('mount_flags are not for this volume: it is mounted read-only')
  if (!readonly) throw refuse('the volume can only be read. Write readOnly: true beside the name of the driver')
  if (volumeContext[`${INFO}ephemeral`] === 'false') throw refuse('the volume is inline only, in the pod itself')
}

/** Throws a `CsiError` unless kubelet named the pod, and its volume is in the pod's own folder. */
function readPodInfo({ volumeContext }: NodePublishVolumeRequest, target: VolumeTarget): { readonly uid: string } {
  for (const key of ['pod.uid', 'pod.namespace', 'pod.name', 'ephemeral'])
    if (!volumeContext[INFO + key]) {
      const remedy = 'Set podInfoOnMount: true and volumeLifecycleModes: [Ephemeral] in the CSIDriver object'
      throw new CsiError(status.INVALID_ARGUMENT, `volume_context has no ${INFO}${key}. ${remedy}`)
    }
  const uid = volumeContext[`${INFO}pod.uid`]
  if (uid === target.uid) return { uid }
  throw new CsiError(
    status.INVALID_ARGUMENT,
    `target_path is in the folder of pod ${target.uid}, and the pod is ${uid}`,
  )
}

function checkPod({ uid, namespace, name, identity }: Pod, context: NodePublishVolumeRequest['volumeContext']): void {
  const claimed = `${context[`${INFO}pod.namespace`]}/${context[`${INFO}pod.name`]}`
  if (claimed !== `${namespace}/${name}`) {
    const reason = `pod ${uid} is ${namespace}/${name} by the API server, and ${claimed} by volume_context`
    throw new CsiError(status.INVALID_ARGUMENT, reason)
  }
  if (identity === undefined)
    throw new CsiError(status.FAILED_PRECONDITION, `pod ${claimed} has no identity: kubernetes does not choose it`)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
