/** The folders of pods: removed when their pods are gone, never before, since a pod that has mounted one sees no other. */
import { chmodSync, lchownSync, lstatSync, mkdirSync, readdirSync, rmdirSync, unlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { makeFolder, systemErrorCode } from '@livery/core'
import type { PodChange } from './pod.ts'
import { isPodUid } from './pod-object.ts'

/** Open to the pod's user, which is not known. Only what is mounted in the pod can be reached there, and the root is closed to others. */
export const FOLDER_MODE = 0o755
/** kubelet mounts the folder of a pod there; other users of the node have no way to it. */
const ROOT_MODE = 0o700
const PARENT_MODE = 0o755
const WRITABLE_BY_OTHERS = 0o022

export interface PodFoldersOptions {
  /** The folder of the folders of pods. */
  readonly root: string
  /** The name of each pod's socket. */
  readonly name: string
  /** Whether the node has the pod, chosen or not. */
  readonly hasPod: (uid: string) => boolean
  /** Called with the folder of a pod that cannot be made or opened to it, and why. */
  readonly onClosedToPod: (folder: string, reason: string) => void
  /** Called with a folder that stays though its pod is gone, and why. */
  readonly onKept: (folder: string, reason: string) => void
}

export class PodFolders {
  readonly #options: PodFoldersOptions

  /** Makes the root. Throws an `UntrustedPathError` or a system error. */
  constructor(options: PodFoldersOptions) {
    this.#options = options
    makeFolder(dirname(options.root), PARENT_MODE)
    makeFolder(options.root, ROOT_MODE)
  }

  /** Makes the folder of a pod that has an identity, and removes that of one that is gone. */
  onChange({ kind, pod: { uid, identity } }: PodChange): void {
    if (kind === 'removed') this.#onGone(uid)
    else if (identity !== undefined) this.#make(uid)
  }

  /** The socket at `path` was closed: its pod may be gone. */
  onClosed(path: string): void {
    this.#onGone(basename(dirname(path)))
  }

  /** kubelet, which may come first, makes it with the mode of the root, and for its own user. */
  #make(uid: string): void {
    const folder = join(this.#options.root, uid)
    try {
      mkdirSync(folder, { recursive: true })
      if ((lstatSync(folder).mode & 0o7777) !== FOLDER_MODE) openToAll(folder)
    } catch (error) {
      this.#options.onClosedToPod(folder, messageOf(error))
    }
  }

  /** A folder that still holds its socket stays until that is closed. */
  #onGone(uid: string): void {
    const folder = join(this.#options.root, uid)
    if (this.#options.hasPod(uid)) return
    try {
      rmdirSync(folder)
    } catch (error) {
      const code = systemErrorCode(error)
      if (code !== 'ENOENT' && code !== 'ENOTEMPTY') this.#keep(folder, error)
    }
  }

  /** Call it when all pods are known: removes what an earlier process left of pods that are gone, and nothing else. */
  sweep(): void {
    const { root, hasPod } = this.#options
    for (const entry of readdirSync(root)) {
      if (!isPodUid(entry) || hasPod(entry)) continue
      try {
        this.#removeLeftover(join(root, entry))
      } catch (error) {
        this.#keep(join(root, entry), error)
      }
    }
  }

  /** A folder of this user with nothing in it but a socket, as this program leaves it. */
  #removeLeftover(folder: string): void {
    const stats = lstatSync(folder)
    const isOwn = stats.isDirectory() && stats.uid === process.geteuid?.() && (stats.mode & WRITABLE_BY_OTHERS) === 0
    if (!isOwn) throw new Error('it is not a folder that this user alone can write to')
    const entries = readdirSync(folder, { withFileTypes: true })
    if (!entries.every(entry => entry.name === this.#options.name && entry.isSocket()))
      throw new Error('it holds other files than a socket')
    for (const { name } of entries) unlinkSync(join(folder, name))
    rmdirSync(folder)
  }

  #keep(folder: string, error: unknown): void {
    this.#options.onKept(folder, messageOf(error))
  }
}

/** Only its owner may change the mode of a folder. A folder of another user becomes this user's, which takes the capability CHOWN. */
function openToAll(folder: string): void {
  const [user = -1, group = -1] = [process.geteuid?.(), process.getegid?.()]
  if (lstatSync(folder).uid !== user) lchownSync(folder, user, group)
  chmodSync(folder, FOLDER_MODE)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
