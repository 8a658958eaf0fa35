/** Watches folders, and none of the folders below them, with chokidar: a few at a time, and many under one of its watchers. */
import { type FSWatcher, watch } from 'chokidar'
import type { Clock } from '../time/clock.ts'

/**
 * The folders that are added at once and share a watcher. Measured with 2,000 folders: in groups of 16 to 32 no turn of the
 * event loop took 20 ms of CPU and the process grew by 45 MB; in groups of 64 and more both were higher.
 */
const GROUP_SIZE = 24
/**
 * Events of all folders in one window. libuv reads events until there are none, in one turn of the event loop: whoever makes
 * events in their folder faster than libuv reads them would block the event loop without limit.
 */
const MAX_EVENTS = 1_000
const WINDOW_MS = 1_000

export type FolderEvent =
  /**
   * The entry `name` of `folder` changed or, if `name` is `undefined`, the folder did. `isWrite`: the entry's content
   * changed; `false`: the entry came, went or was replaced; `undefined`: it may be either.
   */
  | {
      readonly kind: 'changed'
      readonly folder: string
      readonly name: string | undefined
      readonly isWrite: boolean | undefined
    }
  /** `folder` is watched now: earlier changes were not seen. */
  | { readonly kind: 'watched'; readonly folder: string }
  /** `folder`, with others, had too many events: its watch has ended. */
  | { readonly kind: 'flooded'; readonly folder: string }
  /** A folder cannot be watched, as when the system has no watches left; `folder` is `undefined` if unknown. */
  | { readonly kind: 'failed'; readonly folder: string | undefined; readonly error: unknown }

/** Folders under one watcher of chokidar. */
interface Group {
  readonly watcher: FSWatcher
  readonly folders: Set<string>
  /** Resolves when the watcher is ready, or closed. */
  readonly settled: PromiseWithResolvers<void>
  isReady: boolean
}

export class FolderWatches implements Disposable {
  readonly #clock: Pick<Clock, 'now'>
  readonly #report: (event: FolderEvent) => void
  readonly #groups = new Map<string, Group>()
  /** The folders to watch next, in the order in which they were added. */
  readonly #waiting = new Set<string>()
  #isAdding = false
  /** Since when `#events` are counted. */
  #windowStart = 0
  #events = 0

  constructor(clock: Pick<Clock, 'now'>, report: (event: FolderEvent) => void) {
    this.#clock = clock
    this.#report = report
  }

  /** Watches `folder` (an absolute path that exists) soon, again if it is watched already. */
  add(folder: string): void {
    this.delete(folder)
    this.#waiting.add(folder)
    if (!this.#isAdding) void this.#addWaiting()
  }

  delete(folder: string): void {
    this.#waiting.delete(folder)
    const group = this.#groups.get(folder)
    this.#groups.delete(folder)
    if (!group?.folders.delete(folder)) return
    // A watcher keeps the paths that it no longer watches, so it goes with its last folder.
    if (group.folders.size === 0) this.#close(group)
    else group.watcher.unwatch(folder)
  }

  /** Whether `folder` was added, and the event that it is watched is still to come. */
  isWaiting(folder: string): boolean {
    return this.#waiting.has(folder) || this.#groups.get(folder)?.isReady === false
  }

  [Symbol.dispose](): void {
    this.#waiting.clear()
    for (const group of new Set(this.#groups.values())) this.#close(group)
    this.#groups.clear()
  }

  async #addWaiting(): Promise<void> {
    this.#isAdding = true
    // Folders that are added in one turn share a watcher.
    await Promise.resolve()
    while (this.#waiting.size > 0) {
      const folders = [...this.#waiting].slice(0, GROUP_SIZE)
      for (const folder of folders) this.#waiting.delete(folder)
      await this.#watch(folders)
    }
    this.#isAdding = false
  }

  async #watch(paths: readonly string[]): Promise<void> {
    const folders = new Set(paths)
    const watcher = watch([...paths], {
      depth: 0,
      ignoreInitial: true,
      followSymlinks: false,
      atomic: false,
      ignored: path => !folders.has(path),
    })
    const group: Group = { watcher, folders, settled: Promise.withResolvers<void>(), isReady: false }
    for (const folder of paths) this.#groups.set(folder, group)
    this.#listen(group)
    await group.settled.promise
    group.isReady = true
    for (const folder of folders) this.#report({ kind: 'watched', folder })
  }

  #listen({ watcher, folders, settled }: Group): void {
    // Chokidar's other events leave out a file whose size and time have not changed.
    watcher.on('raw', (event, name, details) => {
      const folder = textOf(details, 'watchedPath')
      if (folder === undefined || !folders.has(folder)) return
      if (this.#hasRoomForEvent())
        this.#report({ kind: 'changed', folder, name: name ?? undefined, isWrite: event !== 'rename' })
      else {
        this.delete(folder)
        this.#report({ kind: 'flooded', folder })
      }
    })
    // A folder that was removed is back, or gone.
    watcher.on('all', (_, folder) => {
      this.#report({ kind: 'changed', folder, name: undefined, isWrite: undefined })
    })
    watcher.on('error', error => {
      this.#report({ kind: 'failed', folder: textOf(error, 'path'), error })
    })
    watcher.on('ready', settled.resolve)
  }

  #hasRoomForEvent(): boolean {
    const now = this.#clock.now()
    // A clock that was set back begins one, too.
    if (now < this.#windowStart || now - this.#windowStart >= WINDOW_MS) {
      this.#windowStart = now
      this.#events = 0
    }
    return ++this.#events <= MAX_EVENTS
  }

  #close({ watcher, folders, settled }: Group): void {
    folders.clear()
    settled.resolve()
    watcher.close().catch((error: unknown) => this.#report({ kind: 'failed', folder: undefined, error }))
  }
}

function textOf(value: unknown, key: string): string | undefined {
  const text: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined
  return typeof text === 'string' ? text : undefined
}
