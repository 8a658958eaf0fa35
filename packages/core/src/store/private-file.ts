/** Files that hold keys: checks that no other user could have changed or read them, and overwrites them. */

import { randomBytes } from 'node:crypto'
import { close, constants, fstat, open, read, type Stats } from 'node:fs'
import { chmod, open as openHandle, rename, rm, stat } from 'node:fs/promises'
import { getSystemErrorMessage, promisify } from 'node:util'
import { StoreError } from '../contract/store.ts'
import { checkFile, makeFolder, UntrustedPathError } from '../files/trusted-path.ts'
import { systemErrorCode } from '../text/system-error-code.ts'

// These cost a third of a FileHandle, which matters for ten thousand files.
const [openFile, statFile, readBytes, closeFile] = [
  promisify(open),
  promisify<number, Stats>(fstat),
  promisify(read),
  promisify(close),
]

/** Three times the longest allowed chain with the largest key. */
export const MAX_BYTES = 256 * 1024

const OTHERS_WRITE = 0o022
const EVERYBODY_WRITES = 0o002
const OTHERS = 0o077

/** The condition for reading a file. `ours`: it belongs to this user, and only this user may read it. `operators`: it belongs to root or this user. */
export type Trust = 'ours' | 'operators'

/**
 * The whole file, of at most `maxBytes` (default 256 kB), or `undefined` if there is none. Rejects with a {@link StoreError} if it is not a regular file, is too
 * large, has another owner, or others can write to it; `ours`: also if it is a link, or others can read it.
 */
export async function readPrivateFile(path: string, trust: Trust, maxBytes = MAX_BYTES): Promise<Buffer | undefined> {
  let file: number | undefined
  try {
    const follow = trust === 'ours' ? constants.O_NOFOLLOW : 0
    // Opening a FIFO would otherwise wait for its writer.
    file = await openFile(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY | follow)
    const status = await statFile(file)
    checkStatus(path, status, { trust, maxBytes })
    if (trust === 'operators') checkFile(path, status)
    const bytes = Buffer.alloc(status.size)
    const { bytesRead } = await readBytes(file, bytes, 0, bytes.length, 0)
    return bytes.subarray(0, bytesRead)
  } catch (error) {
    if (error instanceof StoreError) throw error
    if (error instanceof UntrustedPathError) throw unusableFile(path, `is not used: ${error.message}`, error)
    if (systemErrorCode(error) === 'ENOENT') return undefined
    if (systemErrorCode(error) === 'ELOOP') throw unusableFile(path, 'is a symbolic link. Remove it')
    throw unusableFile(path, `cannot be read: ${reasonOf(error)}`, error)
  } finally {
    if (file !== undefined) await closeFile(file)
  }
}

/**
 * Makes `path` a directory of mode 0700 that belongs to this user, and returns what it had to change. Rejects with a
 * {@link StoreError} `unusable-directory` if others could have put files there, or replace it.
 */
export async function preparePrivateFolder(path: string): Promise<readonly string[]> {
  try {
    makeFolder(path, 0o700)
    const { uid, mode } = await stat(path)
    const self = process.geteuid?.()
    if (self !== undefined && uid !== self)
      throw refusal(path, `it belongs to uid ${uid}, and this process runs as ${self}. Run: chown ${self} ${path}`)
    if (self === undefined || !(mode & OTHERS)) return []
    // A shared folder, where files of others may already be.
    if (mode & EVERYBODY_WRITES)
      throw refusal(path, `everybody can write to it (mode ${formatMode(mode)}). Use a separate folder below it.`)
    await chmod(path, 0o700)
    return [`${path} had mode ${formatMode(mode)}, which let others look into it: it has mode 0700 now`]
  } catch (error) {
    if (error instanceof StoreError) throw error
    if (error instanceof UntrustedPathError) throw refusal(path, error.message, error)
    throw refusal(path, `${reasonOf(error)}. Name a directory that this user may write to.`, error)
  }
}

function refusal(path: string, reason: string, cause?: unknown): StoreError {
  return new StoreError('unusable-directory', `Cannot keep secrets in ${path}: ${reason}`, { cause })
}

/** Overwrites what is in the file, if there is one. Copies that a copy-on-write file system or the drive keeps remain. */
export async function wipeFile(path: string): Promise<void> {
  try {
    await using file = await openHandle(path, constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const status = await file.stat()
    if (!status.isFile()) return
    await file.write(new Uint8Array(Math.min(status.size, MAX_BYTES)))
    await file.datasync()
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOENT' && systemErrorCode(error) !== 'ELOOP') throw error
  }
}

/** Replaces the file in one step, with mode 0600. Only a {@link syncFolder} makes its name outlive a power failure. */
export async function replaceFile(path: string, bytes: Buffer): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await writeSafely(temporary, bytes)
    await rename(temporary, path)
  } catch (error) {
    // A file that cannot be removed now is removed at the next start.
    await rm(temporary, { force: true }).catch(() => {})
    throw error
  }
}

async function writeSafely(path: string, bytes: Buffer): Promise<void> {
  await using file = await openHandle(path, 'wx', 0o600)
  // The umask may have cleared bits.
  await file.chmod(0o600)
  await file.writeFile(bytes)
  await file.sync()
}

export async function syncFolder(path: string): Promise<void> {
  await using folder = await openHandle(path)
  await folder.sync()
}

/** The system's message without the path, as a temporary file has another each time. */
export function reasonOf(error: unknown): string {
  if (error instanceof Error && 'errno' in error && typeof error.errno === 'number')
    return `${systemErrorCode(error)}, ${getSystemErrorMessage(error.errno)}`
  return error instanceof Error ? error.message : String(error)
}

function checkStatus(
  path: string,
  { uid, mode, size }: Stats,
  { trust, maxBytes }: { readonly trust: Trust; readonly maxBytes: number },
): void {
  const self = process.geteuid?.()
  if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw unusableFile(path, 'is not a regular file. Remove it')
  if (size > maxBytes) throw unusableFile(path, `is ${size} bytes, more than ${maxBytes}`)
  if (mode & OTHERS_WRITE)
    throw unusableFile(path, `can be written by others (mode ${formatMode(mode)}): find out who has, then remove it`)
  // Only the owner shows who wrote a file in a sticky folder, such as a mounted Secret's.
  const isForeign = self !== undefined && uid !== self
  if (trust === 'operators') {
    if (isForeign && uid !== 0)
      throw unusableFile(
        path,
        `belongs to uid ${uid}, neither root nor ${self}: if it is good, run chown ${self} ${path}`,
      )
    return
  }
  if (isForeign) throw unusableFile(path, `belongs to uid ${uid}, not to ${self}. Remove it`)
  if (mode & OTHERS)
    throw unusableFile(path, `can be read by others (mode ${formatMode(mode)}): its key may be known. Remove it`)
}

function unusableFile(path: string, reason: string, cause?: unknown): StoreError {
  return new StoreError('unusable-entry', `${path} ${reason}`, { cause })
}

function formatMode(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0')
}
