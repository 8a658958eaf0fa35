/** Small files that only their owners replace while Livery runs: tokens, roots, keys. */

import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { systemErrorCode } from '../text/system-error-code.ts'
import { stampOf } from './file-stamp.ts'
import { checkFile } from './trusted-path.ts'

/**
 * Reads a regular file of at most `maxBytes`. Rejects with a reason that carries nothing of the content, such as an
 * `UntrustedPathError` if anybody but its owner, root and this user can have written it. `check` gets the file before
 * anything of it is read, for its path and `fstat` only.
 */
export async function readSmallFile(
  path: string,
  maxBytes: number,
  check?: (descriptor: number) => Promise<void>,
): Promise<Buffer> {
  const { file: opened, found } = await openChecked(path, async descriptor => {
    const { size } = regularFile(path, descriptor, maxBytes)
    await check?.(descriptor)
    return size
  })
  await using file = opened
  const size = found
  // `await` here keeps the file open until the read has ended.
  return await readAll(file, size)
}

/** A file that is read again only when it looks changed. */
export class ChangingFile {
  readonly path: string
  readonly #maxBytes: number
  #seen: { readonly version: string; readonly bytes: Buffer } | undefined

  constructor(path: string, maxBytes: number) {
    this.path = path
    this.#maxBytes = maxBytes
  }

  /** The same object as before while the content is the same. */
  async read(): Promise<Buffer> {
    // Opening it each time would cost a tenth of what a certificate costs.
    if (this.#seen && stampOf(statSync(this.path, { bigint: true })) === this.#seen.version) return this.#seen.bytes
    const { file: opened, found } = await openChecked(this.path, async descriptor =>
      regularFile(this.path, descriptor, this.#maxBytes),
    )
    await using file = opened
    const { size, version } = found
    const bytes = await readAll(file, size)
    this.#seen = { version, bytes: this.#seen?.bytes.equals(bytes) ? this.#seen.bytes : bytes }
    return this.#seen.bytes
  }
}

/** O_NONBLOCK: a FIFO without a writer would block forever. O_NOCTTY: a terminal could end this process. */
const FOR_READING = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY
/** The flag of open(2) on Linux, which node:fs does not name. Such a descriptor identifies the file without opening it. */
const O_PATH = 0o10000000
/** The error codes of a process without /proc, or without permission to read it. */
const OPENED_BY_PATH = ['ENOENT', 'ERR_ACCESS_DENIED']

/** Opens what has passed `check`: a device acts when it is opened, and a user's link may lead to one. */
async function openChecked<T>(
  path: string,
  check: (descriptor: number) => Promise<T>,
): Promise<{ readonly file: FileHandle; readonly found: T }> {
  if (process.platform === 'linux') {
    // Synchronous, like the walk of `checkFile`: the thread pool costs ten times as much.
    const place = openSync(path, O_PATH)
    try {
      const found = await check(place)
      try {
        return { file: await open(`/proc/self/fd/${place}`, FOR_READING), found }
      } catch (error) {
        if (!OPENED_BY_PATH.includes(systemErrorCode(error) ?? '')) throw ofPath(error, path)
      }
    } finally {
      closeSync(place)
    }
  }
  const file = await open(path, FOR_READING)
  try {
    return { file, found: await check(file.fd) }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** The error of /proc, with the path that the caller knows. The path itself may lead elsewhere by then. */
function ofPath(error: unknown, path: string): unknown {
  if (!(error instanceof Error)) return error
  return Object.assign(error, { path, message: error.message.replace(/\/proc\/self\/fd\/\d+/, path) })
}

function regularFile(path: string, descriptor: number, maxBytes: number): { size: number; version: string } {
  const found = fstatSync(descriptor, { bigint: true })
  if (!found.isFile()) throw new Error('it is not a regular file')
  checkFile(path, found, { owners: 'delegated' })
  if (found.size > maxBytes) throw new Error(`it has ${found.size} bytes, more than ${maxBytes}`)
  return { size: Number(found.size), version: stampOf(found) }
}

async function readAll(file: FileHandle, size: number): Promise<Buffer> {
  // One more byte shows that it grew.
  const buffer = Buffer.alloc(size + 1)
  const { bytesRead } = await file.read(buffer, 0, buffer.length, 0)
  if (bytesRead > size) {
    buffer.fill(0) // It may be a part of a key.
    throw new Error('it changed while it was read')
  }
  return buffer.subarray(0, bytesRead)
}
