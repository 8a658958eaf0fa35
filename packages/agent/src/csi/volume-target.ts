/** Where kubelet wants a volume: only the path that kubelet itself gives to the volume of a pod is taken. */
import { lstatSync, mkdirSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { status } from '@grpc/grpc-js'
import { checkFolder, systemErrorCode } from '@livery/core'
import { isPodUid } from '../kubernetes/pod-object.ts'
import { CsiError } from './csi-error.ts'

export interface VolumeTarget {
  readonly path: string
  /** The UID of the pod, as it is in the path. */
  readonly uid: string
}

/** A UID, and the name of a volume: a DNS label. */
const BELOW_PODS = /^([^/]+)\/volumes\/kubernetes\.io~csi\/[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\/mount$/

/** Throws a `CsiError` (`INVALID_ARGUMENT`) for any other path than that of a volume of a pod below `kubeletRoot`. */
export function readTarget(path: string, kubeletRoot: string): VolumeTarget {
  const pods = `${join(kubeletRoot, 'pods')}/`
  const uid = path.startsWith(pods) ? BELOW_PODS.exec(path.slice(pods.length))?.[1] : undefined
  if (uid !== undefined && isPodUid(uid)) return { path, uid }
  const form = `${pods}UID/volumes/kubernetes.io~csi/NAME/mount`
  const reason = `target_path is not ${form}. If kubelet runs with another --root-dir, write it as kubernetes.csi.kubeletRoot`
  throw new CsiError(status.INVALID_ARGUMENT, reason)
}

/**
 * The path with its links resolved, or `undefined` if its folder is not there. Throws a `CsiError`
 * (`FAILED_PRECONDITION`) if another user could lead it elsewhere. After that only root and this user can.
 */
export function resolveTarget(path: string): string | undefined {
  const folder = dirname(path)
  try {
    checkFolder(folder, { shared: false })
    return join(realpathSync(folder), basename(path))
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined
    throw new CsiError(status.FAILED_PRECONDITION, error instanceof Error ? error.message : String(error))
  }
}

/** Makes the directory to mount on. Throws a `CsiError` if something else is there. */
export function makeMountPoint(path: string): void {
  try {
    mkdirSync(path, 0o750)
  } catch (error) {
    if (systemErrorCode(error) !== 'EEXIST') throw error
    if (!lstatSync(path).isDirectory())
      throw new CsiError(status.FAILED_PRECONDITION, `${path} is there and is not a directory`)
  }
}
