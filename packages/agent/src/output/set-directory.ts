/** Files that are replaced as one set, as the kubelet does: links to `..data`, a link to the newest folder of them. */
import { createHash, randomUUID } from 'node:crypto'
import { readlinkSync } from 'node:fs'
import { mkdir, open, readdir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { checkFolder, makeFolder, readSmallFile, systemErrorCode } from '@livery/core/plugin'
import type { OutputSetting } from '../config/output-schema.ts'

/** The link to the current set. */
const DATA = '..data'
/** Prefix of the sets' folders; no other program uses it. */
const SET_PREFIX = '..livery-'
/** Larger than any set of one identity. */
const MAX_FILE_BYTES = 2_097_152

export interface SetFile {
  readonly content: Buffer
  readonly mode: number
}

/** Writes sets to one directory, and to none that another program fills. */
export class SetDirectory {
  readonly #setting: Pick<OutputSetting, 'directory' | 'owner' | 'group'>
  /** SHA-256 of each file of the last written set, by name. */
  #digests: ReadonlyMap<string, string> | undefined
  #current: string | undefined

  constructor(setting: Pick<OutputSetting, 'directory' | 'owner' | 'group'>) {
    this.#setting = setting
  }

  /** The paths to watch for changes by others. */
  pathsOf(names: readonly string[]): readonly string[] {
    return names.map(name => join(this.#setting.directory, name))
  }

  /**
   * Replaces the set: a reader that opens `..data` once gets one set. The previous set stays until the next one. Rejects if
   * somebody else could replace the files, or another program writes them.
   */
  async write(files: ReadonlyMap<string, SetFile>): Promise<void> {
    const { directory } = this.#setting
    makeFolder(directory, 0o755)
    refuseForeign(directory, files.keys())
    const previous = this.#current ?? (await currentSet(directory))
    const set = `${SET_PREFIX}${randomUUID()}`
    await this.#writeSet(join(directory, set), files)
    await replaceLink(join(directory, DATA), set)
    for (const name of files.keys()) await replaceLink(join(directory, name), join(DATA, name))
    await syncFolder(directory)
    this.#current = set
    this.#digests = new Map(Array.from(files, ([name, { content }]) => [name, digestOf(content)]))
    await removeSets(directory, [set, previous])
  }

  /** Whether this set was the last one written, and is unchanged. */
  async holds(files: ReadonlyMap<string, SetFile>): Promise<boolean> {
    const digests = this.#digests
    if (digests?.size !== files.size) return false
    for (const [name, { content }] of files) if (digests.get(name) !== digestOf(content)) return false
    return await this.isIntact()
  }

  /** Whether every file is as it was written. */
  async isIntact(): Promise<boolean> {
    const { directory } = this.#setting
    try {
      if (readlinkSync(join(directory, DATA)) !== this.#current) return false
      for (const [name, digest] of this.#digests ?? []) {
        const path = join(directory, name)
        if (readlinkSync(path) !== join(DATA, name)) return false
        const content = await readSmallFile(path, MAX_FILE_BYTES)
        const isSame = digestOf(content) === digest
        content.fill(0)
        if (!isSame) return false
      }
      return true
    } catch {
      return false
    }
  }

  /** Removes the previous set, whose readers have had their time. */
  async dropPrevious(): Promise<void> {
    if (this.#current !== undefined) await removeSets(this.#setting.directory, [this.#current])
  }

  async #writeSet(folder: string, files: ReadonlyMap<string, SetFile>): Promise<void> {
    // The folder is private until each file has its mode and owner.
    await mkdir(folder, { mode: 0o700 })
    for (const [name, file] of files) await this.#writeFile(join(folder, name), file)
    await using handle = await open(folder)
    await handle.chmod(0o755)
    await handle.sync()
  }

  async #writeFile(path: string, { content, mode }: SetFile): Promise<void> {
    const { owner, group } = this.#setting
    await using file = await open(path, 'wx', 0o600)
    await file.writeFile(content)
    if (owner !== undefined || group !== undefined) await file.chown(owner ?? -1, group ?? -1)
    // The mode follows the owner: a group mode must not apply to the wrong group.
    await file.chmod(mode)
    await file.sync()
  }
}

/**
 * Recognises another program's files: plain files, or a `..data` that leads elsewhere. Without `..data`, links through it are
 * dangling, so replacing them loses nothing.
 */
function refuseForeign(directory: string, names: Iterable<string>): void {
  checkFolder(directory)
  const data = linkAt(join(directory, DATA))
  if (data?.startsWith(SET_PREFIX)) return
  const isForeign = (name: string) => ![undefined, join(DATA, name)].includes(linkAt(join(directory, name)))
  const foreign = data === undefined ? [...names].find(isForeign) : DATA
  if (foreign !== undefined)
    throw new Error(
      `Cannot write certificates to ${directory}: another program has put ${foreign} there. Name an empty directory, or remove what is in it`,
    )
}

/** Where the link leads; `undefined` if nothing is there, empty if it is not a link. */
function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch (error) {
    return systemErrorCode(error) === 'ENOENT' ? undefined : ''
  }
}

async function currentSet(directory: string): Promise<string | undefined> {
  return await readlink(join(directory, DATA)).catch(() => undefined)
}

async function replaceLink(path: string, target: string): Promise<void> {
  if (linkAt(path) === target) return
  const temporary = `${path}.${randomUUID()}`
  await symlink(target, temporary)
  try {
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    // A folder in place of a file is somebody else's, though the directory is ours.
    if (systemErrorCode(error) !== 'EISDIR') throw error
    await rm(path, { recursive: true })
    await symlink(target, path)
  }
}

async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder)
  await handle.sync()
}

async function removeSets(directory: string, kept: readonly (string | undefined)[]): Promise<void> {
  for (const name of await readdir(directory))
    if (name.startsWith(SET_PREFIX) && !kept.includes(name)) await rm(join(directory, name), { recursive: true })
}

function digestOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
