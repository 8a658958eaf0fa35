/** The files with roots, which together are the trust bundle. */

import { createHash, X509Certificate } from 'node:crypto'
import type { LookReason, WatchedFiles } from '@livery/core'
import {
  after,
  type Clock,
  FileFault,
  isSelfSigned,
  MAX_FILE_BYTES,
  pemBlocks,
  readFault,
  readSmallFile,
  type Semaphore,
  stampsOf,
  untilAborted,
} from '@livery/core/plugin'
import { reasonOf } from '../../answers/reason-of.ts'
import { ChangeNotice } from './change-notice.ts'
import type { FaultLog } from './fault-log.ts'

/** Room for roots, a chain and a key: core takes 100 roots, and parsing thousands would hold up the event loop. */
const MAX_BLOCKS = 120
/** Files that change together are one change of the bundle. */
const GATHER_MS = 100

interface MountedRootsParts {
  readonly clock: Clock
  readonly watched: WatchedFiles
  /** Limits the reads that no request for one identity needs. */
  readonly reads: Semaphore
  /** Whether the files hold chains, in which only the self-signed certificates are roots. */
  readonly areChains: boolean
  readonly faults: FaultLog
  readonly warn: (message: string) => void
  /** Called when the bundle differs from the last one returned. Default: the files are not a bundle. */
  readonly onChange?: () => void
}

/** The PEM of each root by the SHA-256 (hex) of its DER. */
type Roots = ReadonlyMap<string, string>

/** The users of a file. */
interface RootsUser {
  /** Called when the file is readable again. */
  readonly onReadable?: () => void
  /** Called when its roots change. */
  readonly onChange?: () => void
}

interface RootsFile {
  readonly path: string
  readonly watch: Disposable
  readonly users: Set<RootsUser>
  /** Whether a caller asked for it in vain. */
  wasMissed: boolean
  /** The file's stamp before its last good read. */
  stamp: string | undefined
  reads: number
  /** The result of the latest read, and its number: reads overlap. */
  seen: { readonly read: number; readonly digest: string; readonly roots: Roots } | undefined
}

export class MountedRoots implements Disposable {
  readonly #parts: MountedRootsParts
  readonly #files = new Map<string, RootsFile>()
  readonly #notice = new ChangeNotice()
  #gathering: Disposable | undefined

  constructor(parts: MountedRootsParts) {
    this.#parts = parts
  }

  /** Adds `path` to the bundle. */
  use(path: string, listeners: RootsUser): Disposable {
    const file = this.#files.get(path) ?? this.#open(path)
    const user = { ...listeners }
    file.users.add(user)
    return {
      [Symbol.dispose]: () => {
        file.users.delete(user)
        if (file.users.size === 0) this.#close(file)
      },
    }
  }

  /** Whether `path` could be read at least once. */
  isKnown(path: string): boolean {
    return this.#files.get(path)?.seen !== undefined
  }

  /** Changes with the roots in `path`; empty before they were read. */
  version(path: string): string {
    const seen = this.#files.get(path)?.seen
    return seen ? versionOf(seen.roots) : ''
  }

  /** The current roots of one file in use. Rejects with a {@link FileFault}. */
  async read(path: string): Promise<readonly string[]> {
    const file = this.#files.get(path)
    if (!file) throw new TypeError(`Cannot read ${path}: it is not in use`)
    try {
      return [...(await this.#read(file)).values()]
    } catch (error) {
      file.wasMissed = true
      throw error
    }
  }

  /**
   * The current roots of all files; an unreadable file keeps its last ones. Rejects with a
   * {@link FileFault} if there is no root.
   */
  async bundle(signal: AbortSignal): Promise<readonly string[]> {
    const faults: unknown[] = []
    const read = (file: RootsFile) => this.#parts.reads.run(() => this.#read(file)).catch(error => faults.push(error))
    await untilAborted(Promise.all(Array.from(this.#files.values(), read)), signal)
    const union = this.#union()
    if (union.size === 0 && faults.length > 0) throw faults[0]
    this.#notice.returned(versionOf(union))
    return [...union.values()]
  }

  [Symbol.dispose](): void {
    this.#gathering?.[Symbol.dispose]()
    for (const file of this.#files.values()) this.#close(file)
  }

  #open(path: string): RootsFile {
    const { watched, reads } = this.#parts
    const watch = watched.add([path], reason => void reads.run(() => this.#look(file, reason)))
    const file: RootsFile = {
      path,
      watch,
      users: new Set(),
      wasMissed: false,
      stamp: undefined,
      reads: 0,
      seen: undefined,
    }
    this.#files.set(path, file)
    return file
  }

  #close(file: RootsFile): void {
    file.watch[Symbol.dispose]()
    this.#parts.faults.gone(file.path)
    this.#files.delete(file.path)
  }

  async #look(file: RootsFile, reason: LookReason): Promise<void> {
    const { faults } = this.#parts
    try {
      const isNews = file.wasMissed || !file.seen
      if (reason !== 'poll' || isNews || file.stamp !== stampsOf([file.path])) await this.#read(file)
      faults.gone(file.path)
      if (!this.#files.has(file.path)) return
      this.#gather()
      file.wasMissed = false
      if (isNews) for (const { onReadable } of file.users) onReadable?.()
    } catch (error) {
      if (file.seen && this.#files.has(file.path)) faults.found(file.path, reasonOf(error))
    }
  }

  async #read(file: RootsFile): Promise<Roots> {
    const { path } = file
    const read = ++file.reads
    const stamp = stampsOf([path])
    const bytes = await readSmallFile(path, MAX_FILE_BYTES).catch(error => {
      throw readFault(path, error, true)
    })
    try {
      const digest = createHash('sha256').update(bytes).digest('hex')
      const { seen } = file
      if (seen && read < seen.read) return seen.roots
      const roots = seen?.digest === digest ? seen.roots : this.#parse(path, bytes)
      file.stamp = stamp
      file.seen = { read, digest, roots }
      if (roots !== seen?.roots && this.#files.has(path)) this.#gather()
      if (seen && versionOf(roots) !== versionOf(seen.roots)) for (const { onChange } of file.users) onChange?.()
      return roots
    } finally {
      // The same file may hold the key.
      bytes.fill(0)
    }
  }

  #parse(path: string, bytes: Buffer): Roots {
    const { areChains, warn } = this.#parts
    const blocks = pemBlocks(bytes)
    const fault = (reason: string) =>
      new FileFault({ file: path, reason, remedy: 'Write the roots as PEM', mayPass: true })
    if (blocks.length > MAX_BLOCKS) throw fault(`it has ${blocks.length} PEM blocks, more than ${MAX_BLOCKS}`)
    if (blocks.at(-1)?.bytes === undefined)
      throw fault(blocks.length > 0 ? 'it ends within a certificate' : 'it has no PEM certificate')
    const roots = new Map<string, string>()
    let unreadable = 0
    for (const { label, bytes: block } of blocks) {
      if (label !== 'CERTIFICATE' || !block) continue
      const root = parse(block)
      if (!root) unreadable++
      else if (!areChains || isSelfSigned(root)) roots.set(fingerprintOf(root), root.toString())
    }
    if (unreadable > 0) warn(`${unreadable} certificates in ${path} cannot be parsed and are left out. Replace them.`)
    if (roots.size === 0) throw fault(areChains ? 'no certificate in it is self-signed' : 'it has no root')
    return roots
  }

  #gather(): void {
    const { clock, onChange } = this.#parts
    if (!onChange) return
    this.#gathering ??= after(clock, GATHER_MS, () => {
      this.#gathering = undefined
      const union = this.#union()
      if (union.size > 0 && this.#notice.isDue(versionOf(union), clock.now())) onChange()
    })
  }

  #union(): Roots {
    return new Map([...this.#files.values()].flatMap(({ seen }) => (seen ? [...seen.roots] : [])))
  }
}

function parse(block: Buffer): X509Certificate | undefined {
  try {
    return new X509Certificate(block)
  } catch {
    return undefined
  }
}

function fingerprintOf({ raw }: X509Certificate): string {
  return createHash('sha256').update(raw).digest('hex')
}

function versionOf(roots: Roots): string {
  return [...roots.keys()].sort().join()
}
