/** Small files that others replace while Livery runs: tokens, roots, keys. */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

/** Reads a regular file of at most `maxBytes`; rejects with a reason that carries nothing of the content. */
export async function readSmallFile(path: string, maxBytes: number): Promise<Buffer> {
  await using file = await openForReading(path)
  return readAll(file, (await regularFile(file, maxBytes)).size)
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
    await using file = await openForReading(this.path)
    const { size, version } = await regularFile(file, this.#maxBytes)
    if (this.#seen?.version === version) return this.#seen.bytes
    const bytes = await readAll(file, size)
    this.#seen = { version, bytes: this.#seen?.bytes.equals(bytes) ? this.#seen.bytes : bytes }
    return this.#seen.bytes
  }
}

function openForReading(path: string): Promise<FileHandle> {
  // A FIFO without a writer would block for ever otherwise.
  return open(path, constants.O_RDONLY | constants.O_NONBLOCK)
}

async function regularFile(file: FileHandle, maxBytes: number): Promise<{ size: number; version: string }> {
  const stat = await file.stat({ bigint: true })
  if (!stat.isFile()) throw new Error('it is not a regular file')
  if (stat.size > maxBytes) throw new Error(`it has ${stat.size} bytes, more than ${maxBytes}`)
  const { dev, ino, size, mtimeNs, ctimeNs } = stat
  return { size: Number(size), version: [dev, ino, size, mtimeNs, ctimeNs].join() }
}

async function readAll(file: FileHandle, size: number): Promise<Buffer> {
  // One more, to see that it grew.
  const buffer = Buffer.alloc(size + 1)
  const { bytesRead } = await file.read(buffer, 0, buffer.length, 0)
  if (bytesRead > size) throw new Error('it changed while it was read')
  return buffer.subarray(0, bytesRead)
}
