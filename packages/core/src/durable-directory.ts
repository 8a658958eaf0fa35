/** A directory whose files are replaced whole: temporary file, fsync, rename, fsync of the directory. */
import { randomBytes } from 'node:crypto'
import { type FileHandle, open, readdir, rename, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from './clock.ts'
import { checkDirectory, reasonOf, wipeFile } from './private-file.ts'
import { retryDelay } from './rotation.ts'

/** So many changes share one fsync of the directory. */
const BATCH = 32
/** libuv has four threads for all of Node: an fsync keeps one of them waiting. */
const AT_ONCE = 2
const RETRY = { minMs: 1_000, maxMs: 150_000 }
/** How long the end waits for a disk that does not answer. */
const FLUSH_MS = 3_000

const LEFTOVER = /\.[0-9a-f]{12}\.tmp$/

/** `bytes`: what the file is to hold; absent: it is to go. */
interface Change {
  readonly name: string
  /** Whom it concerns, for whoever is told of a failure. */
  readonly about: string
  readonly bytes?: Buffer
  readonly tried: PromiseWithResolvers<void>
}

/** One change under way. */
interface Step {
  readonly change: Change
  readonly path: string
  readonly temporary: string
  /** Open until it is safe. */
  file?: FileHandle
  error?: unknown
}

/** Files of mode 0600 by name, changed in the background, the newest change of each only. */
export class DurableDirectory implements AsyncDisposable {
  readonly path: string
  /** What could not be put in order at the start. */
  readonly warnings: readonly string[]
  readonly #clock: Clock
  readonly #names: Set<string>
  readonly #waiting = new Map<string, Change>()
  readonly #failed = new Map<string, Change>()
  #working: Promise<void> | undefined
  #inWork = 0
  #failures = 0
  #retry: Disposable | undefined
  #isClosed = false
  onFailure: (about: string, reason: string) => void = () => {}

  private constructor(path: string, clock: Clock, names: readonly string[], warnings: readonly string[]) {
    this.path = path
    this.#clock = clock
    this.#names = new Set(names)
    this.warnings = warnings
  }

  /**
   * Makes the directory (mode 0700) if there is none, and removes what an interrupted write has left. Rejects with a
   * {@link StoreError} `unusable-directory` if others can write to it, or it cannot be used.
   */
  static async open(path: string, clock: Clock): Promise<DurableDirectory> {
    await checkDirectory(path)
    const found = await readdir(path)
    const warnings: string[] = []
    for (const name of found.filter(name => LEFTOVER.test(name))) {
      try {
        await wipeFile(join(path, name))
        await unlink(join(path, name))
      } catch (error) {
        warnings.push(`${join(path, name)}, left by an interrupted write, cannot be removed: ${reasonOf(error)}`)
      }
    }
    return new DurableDirectory(
      path,
      clock,
      found.filter(name => !LEFTOVER.test(name)),
      warnings,
    )
  }

  /** Whether the file is there, or will be when what was asked for is done. */
  has(name: string): boolean {
    return this.#names.has(name)
  }

  /** Changes that are not safe yet, those that failed included. */
  get unwritten(): number {
    return this.#waiting.size + this.#failed.size + this.#inWork
  }

  names(): Iterable<string> {
    return this.#names
  }

  /**
   * Replaces the file; takes `bytes` over and wipes them. Resolves when that is safe, when a later change has taken its
   * place, or when the first try has failed: that is told to `onFailure`, and tried again.
   */
  write(name: string, about: string, bytes: Buffer): Promise<void> {
    this.#names.add(name)
    return this.#change({ name, about, bytes, tried: Promise.withResolvers() })
  }

  /** Overwrites and removes the file, if it is there. */
  remove(name: string, about: string): void {
    if (!this.#names.delete(name)) return
    void this.#change({ name, about, tried: Promise.withResolvers() })
  }

  /** Tries what is left once more, and waits a few seconds for it at most. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    this.#retry?.[Symbol.dispose]()
    const late = Promise.withResolvers<void>()
    using _ = this.#clock.at(this.#clock.now() + FLUSH_MS, () => late.resolve())
    await Promise.race([this.#flush(), late.promise])
    for (const change of this.#waiting.values())
      this.onFailure(
        change.about,
        `${join(this.path, change.name)}: the disk took longer than ${FLUSH_MS} ms at the end`,
      )
    for (const change of [...this.#waiting.values(), ...this.#failed.values()]) settle(change)
    this.#waiting.clear()
    this.#failed.clear()
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
      const batch = this.#takeBatch()
      this.#inWork = batch.length
      const steps = await this.#apply(batch)
      this.#inWork = 0
      for (const step of steps) this.#finish(step)
    }
    // Not in a later turn: whoever was told that its change is made may have the next one.
    this.#working = undefined
    if (this.#failed.size === 0) this.#failures = 0
    else this.#planRetry()
  }

  #takeBatch(): readonly Change[] {
    const batch: Change[] = []
    for (const change of this.#waiting.values()) if (batch.push(change) === BATCH) break
    for (const { name } of batch) this.#waiting.delete(name)
    return batch
  }

  /** In phases, so that what needs no fsync does not wait for one, and the event loop is asked few times. */
  async #apply(batch: readonly Change[]): Promise<readonly Step[]> {
    const steps = batch.map((change): Step => {
      const path = join(this.path, change.name)
      return { change, path, temporary: `${path}.${randomBytes(6).toString('hex')}.tmp` }
    })
    await Promise.all(steps.map(step => attempt(step, write)))
    const inTurn = steps.values()
    const syncer = async (): Promise<void> => {
      for (const step of inTurn) await attempt(step, makeSafe)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, syncer))
    await Promise.all(steps.map(close))
    await Promise.all(steps.map(step => attempt(step, publish)))
    await Promise.all(steps.map(clean))
    const unsafe = await this.#syncDirectory().then(
      () => undefined,
      (error: unknown) => error,
    )
    for (const step of steps) step.error ??= unsafe
    return steps
  }

  async #syncDirectory(): Promise<void> {
    await using directory = await open(this.path)
    await directory.sync()
  }

  #finish({ change, path, error }: Step): void {
    if (error === undefined || this.#waiting.has(change.name)) {
      settle(change)
      return
    }
    this.#failed.set(change.name, change)
    change.tried.resolve()
    this.onFailure(change.about, `${path} cannot be ${change.bytes ? 'kept' : 'wiped'}: ${reasonOf(error)}`)
  }

  #planRetry(): void {
    if (this.#isClosed) return
    this.#retry?.[Symbol.dispose]()
    const at = this.#clock.now() + retryDelay(++this.#failures, RETRY, 0.5)
    this.#retry = this.#clock.at(at, () => this.#tryAgain())
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

async function attempt(step: Step, action: (step: Step) => Promise<void>): Promise<void> {
  if (step.error !== undefined) return
  try {
    await action(step)
  } catch (error) {
    step.error = error
  }
}

async function write(step: Step): Promise<void> {
  const { bytes } = step.change
  if (!bytes) return
  step.file = await open(step.temporary, 'wx', 0o600)
  // The umask may have taken bits away.
  await step.file.chmod(0o600)
  await step.file.writeFile(bytes)
}

async function makeSafe({ path, file }: Step): Promise<void> {
  if (file) await file.sync()
  else await wipeFile(path)
}

async function close(step: Step): Promise<void> {
  try {
    await step.file?.close()
  } catch (error) {
    step.error ??= error
  }
}

async function publish({ change, path, temporary }: Step): Promise<void> {
  if (change.bytes) await rename(temporary, path)
  else await rm(path, { force: true })
}

/** What cannot be removed now is at the next start. */
async function clean({ change, temporary, error }: Step): Promise<void> {
  if (error !== undefined && change.bytes) await rm(temporary, { force: true }).catch(() => {})
}
