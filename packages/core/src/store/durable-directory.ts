/** A directory whose files are replaced whole: temporary file, fsync, rename, fsync of the directory. */
import { readdir, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { backoff } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import { after } from '../time/deadline.ts'
import { Semaphore } from '../time/semaphore.ts'
import { movePlainEntries } from './plain-entries.ts'
import {
  MAX_BYTES,
  preparePrivateFolder,
  readPrivateFile,
  reasonOf,
  replaceFile,
  syncFolder,
  wipeFile,
} from './private-file.ts'
import { isSealed, SealedEntries, type Written } from './sealed-entries.ts'
import { SEAL_OVERHEAD, type StoreKey } from './store-key.ts'
import type { EntryForm } from './stored-form.ts'

/** The number of changes that share one fsync of the directory. */
const BATCH = 32
/** libuv has four threads for files and names: a disk that hangs must leave one to look up the CA and read its token. */
const AT_ONCE = 3
/** One less, so that reads never wait for the whole backlog of writes. */
const WRITES_AT_ONCE = 2
const RETRY = { minMs: 1_000, maxMs: 150_000 }
/** How long `release` waits for a disk that does not answer. */
const FLUSH_MS = 3_000

const LEFTOVER = /\.[0-9a-f]{12}\.tmp$/

/** `bytes`: the new content of the file; absent: the file is removed. */
interface Change {
  readonly name: string
  /** The name that it concerns, for reports of failures. */
  readonly about: string
  readonly bytes?: Buffer
  readonly tried: PromiseWithResolvers<void>
}

/** A change after one try. */
interface Tried extends Pick<Written, 'generation'> {
  readonly change: Change
  readonly error?: unknown
}

/** Files of mode 0600 by name, changed in the background, the newest change of each only. */
export class DurableDirectory implements AsyncDisposable {
  readonly path: string
  /** Problems that could not be fixed at the start. */
  readonly warnings: readonly string[]
  readonly #clock: Clock
  readonly #sealed: SealedEntries | undefined
  readonly #disk = new Semaphore(AT_ONCE)
  readonly #names: Set<string>
  readonly #waiting = new Map<string, Change>()
  readonly #failed = new Map<string, Change>()
  #working: Promise<void> | undefined
  #inWork: readonly Change[] = []
  #failures = 0
  #failure: string | undefined
  #behindSince: number | undefined
  #retry: Disposable | undefined
  #isClosed = false
  /** Files whose removal came after `release`, each with the name that it concerns. */
  readonly #missed = new Map<string, string>()
  onFailure: (about: string, reason: string) => void = () => {}

  private constructor(
    path: string,
    clock: Clock,
    found: {
      readonly names: readonly string[]
      readonly warnings: readonly string[]
      readonly sealed: SealedEntries | undefined
    },
  ) {
    this.path = path
    this.#clock = clock
    this.#names = new Set(found.names)
    this.#sealed = found.sealed
    this.warnings = found.warnings
  }

  /**
   * Makes the directory (mode 0700) if there is none, takes away what others may do in it, and removes what an
   * interrupted write has left. With a `key` every file is sealed, those included that are there in plain text. Rejects with
   * a {@link StoreError} `unusable-directory` if others can write to it or to a folder above it, or it cannot be used. Rejects
   * as `own` does before anything in it is changed.
   */
  static async open(
    path: string,
    clock: Clock,
    { key, own }: { readonly key?: StoreKey | undefined; readonly own?: (() => Promise<void>) | undefined } = {},
  ): Promise<DurableDirectory> {
    const warnings = [...(await preparePrivateFolder(path))]
    await own?.()
    const found = await readdir(path)
    for (const name of found.filter(name => LEFTOVER.test(name))) {
      try {
        await wipeFile(join(path, name))
        await unlink(join(path, name))
      } catch (error) {
        warnings.push(`${join(path, name)}, left by an interrupted write, cannot be removed: ${reasonOf(error)}`)
      }
    }
    const sealed = key && (await SealedEntries.open(path, key, clock))
    if (sealed) warnings.push(...(await movePlainEntries(path, found, sealed)))
    else if (isSealed(found)) warnings.push(`${path} is sealed, and its entries are not used: store.keyFile is not set`)
    const names = sealed ? await readdir(path) : found.filter(name => !LEFTOVER.test(name))
    return new DurableDirectory(path, clock, { names, warnings, sealed })
  }

  /** Which files it reads and writes. */
  get form(): EntryForm {
    return this.#sealed ? 'sealed' : 'pem'
  }

  /** Whether the file exists, or will once pending changes are done. */
  has(name: string): boolean {
    return this.#names.has(name)
  }

  /** The contents of the file, or `undefined` if there is none. Rejects with a {@link StoreError} if it cannot be used. */
  read(name: string, maxBytes = MAX_BYTES): Promise<Buffer | undefined> {
    const path = join(this.path, name)
    const sealed = this.#sealed
    if (!sealed) return this.#disk.run(() => readPrivateFile(path, 'ours', maxBytes))
    return this.#disk.run(async () => {
      const file = await readPrivateFile(path, 'ours', maxBytes + SEAL_OVERHEAD)
      return file && (await sealed.unseal(name, file))
    })
  }

  /** Changes that are not safe yet, those that failed included. */
  get unwritten(): number {
    return this.#waiting.size + this.#failed.size + this.#inWork.length
  }

  /** Why the newest try failed, such as `ENOSPC, no space left on device`; `undefined` while no change has to be tried again. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** When the oldest change came that is not safe yet, milliseconds since the epoch. */
  get behindSince(): number | undefined {
    return this.#behindSince
  }

  names(): Iterable<string> {
    return this.#names
  }

  /**
   * Replaces the file; takes `bytes` over and wipes them. Resolves when that is safe, when a later change has taken its
   * place, or when the first attempt has failed: that is reported to `onFailure`, and tried again.
   */
  write(name: string, about: string, bytes: Buffer): Promise<void> {
    this.#names.add(name)
    this.#missed.delete(name)
    return this.#change({ name, about, bytes, tried: Promise.withResolvers() })
  }

  /** Overwrites and removes the file, if it is there. */
  remove(name: string, about: string): void {
    if (!this.#names.delete(name)) return
    if (this.#isClosed) this.#missed.set(name, about)
    else void this.#change({ name, about, tried: Promise.withResolvers() })
  }

  /** Writes what is left, waiting a few seconds for it at most, and changes nothing more until `reclaim`. */
  async release(): Promise<void> {
    this.#isClosed = true
    this.#retry?.[Symbol.dispose]()
    const late = Promise.withResolvers<void>()
    using _ = after(this.#clock, FLUSH_MS, late.resolve)
    await Promise.race([this.#flush(), late.promise])
    for (const change of [...this.#inWork, ...this.#waiting.values()])
      this.onFailure(
        change.about,
        `${join(this.path, change.name)}: the disk took longer than ${FLUSH_MS} ms at the end`,
      )
    for (const change of [...this.#waiting.values(), ...this.#failed.values()]) settle(change)
    this.#waiting.clear()
    this.#failed.clear()
  }

  /** Resumes changes. Removals since `release` happen now; writes since then are lost. */
  reclaim(): void {
    this.#sealed?.refresh()
    this.#isClosed = false
    for (const [name, about] of this.#missed) {
      this.#names.add(name)
      this.remove(name, about)
    }
    this.#missed.clear()
  }

  /** As `release`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  async #flush(): Promise<void> {
    await this.#working
    this.#tryAgain()
    await this.#working
  }

  #change(change: Change): Promise<void> {
    if (this.#isClosed) settle(change)
    else {
      this.#supersede(change.name)
      this.#waiting.set(change.name, change)
      this.#behindSince ??= this.#clock.now()
      this.#work()
    }
    return change.tried.promise
  }

  #supersede(name: string): void {
    for (const changes of [this.#waiting, this.#failed]) {
      const before = changes.get(name)
      if (before) settle(before)
      changes.delete(name)
    }
  }

  #work(): void {
    this.#working ??= this.#empty()
  }

  async #empty(): Promise<void> {
    while (this.#waiting.size > 0) {
      this.#inWork = this.#takeBatch()
      const tried = await this.#apply(this.#inWork)
      this.#inWork = []
      for (const each of tried) this.#finish(each)
    }
    // Reset in this turn: a caller whose change is done may make the next one.
    this.#working = undefined
    if (this.#failed.size > 0) {
      this.#planRetry()
      return
    }
    this.#failures = 0
    this.#failure = undefined
    this.#behindSince = undefined
  }

  #takeBatch(): readonly Change[] {
    const batch: Change[] = []
    for (const change of this.#waiting.values()) if (batch.push(change) === BATCH) break
    for (const { name } of batch) this.#waiting.delete(name)
    return batch
  }

  async #apply(batch: readonly Change[]): Promise<readonly Tried[]> {
    const left = batch.values()
    const tried: Tried[] = []
    const lane = async (): Promise<void> => {
      for (const change of left) tried.push(await this.#disk.run(() => this.#try(change)))
    }
    await Promise.all(Array.from({ length: WRITES_AT_ONCE }, lane))
    try {
      await this.#disk.run(async () => {
        const made = tried.filter(({ error }) => error === undefined)
        await this.#sealed?.commit(made.map(({ change: { name }, generation }) => ({ name, generation })))
        await syncFolder(this.path)
      })
      return tried
    } catch (unsafe) {
      return tried.map(({ change, error = unsafe }) => ({ change, error }))
    }
  }

  async #try(change: Change): Promise<Tried> {
    const path = join(this.path, change.name)
    try {
      if (change.bytes) return { change, ...(await this.#replace(change.name, change.bytes)) }
      await wipeFile(path)
      await rm(path, { force: true })
      return { change }
    } catch (error) {
      return { change, error }
    }
  }

  async #replace(name: string, bytes: Buffer): Promise<Pick<Written, 'generation'>> {
    const sealed = await this.#sealed?.seal(name, bytes)
    await replaceFile(join(this.path, name), sealed?.file ?? bytes)
    return { generation: sealed?.generation }
  }

  #finish({ change, error }: Tried): void {
    if (error === undefined || this.#waiting.has(change.name)) {
      settle(change)
      return
    }
    this.#failed.set(change.name, change)
    change.tried.resolve()
    const path = join(this.path, change.name)
    this.#failure = reasonOf(error)
    this.onFailure(change.about, `${path} cannot be ${change.bytes ? 'kept' : 'wiped'}: ${this.#failure}`)
  }

  #planRetry(): void {
    if (this.#isClosed) return
    this.#retry?.[Symbol.dispose]()
    this.#retry = after(this.#clock, backoff(++this.#failures, RETRY), () => this.#tryAgain())
  }

  #tryAgain(): void {
    for (const change of this.#failed.values()) this.#waiting.set(change.name, change)
    this.#failed.clear()
    if (this.#waiting.size > 0) this.#work()
  }
}

function settle({ bytes, tried }: Change): void {
  bytes?.fill(0)
  tried.resolve()
}
