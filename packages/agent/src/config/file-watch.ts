/** Says when to look at a file again: a watch as the hint, and a slow poll, since watches are lost. */
import { readlinkSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Clock } from '@livery/core'
import { type FSWatcher, watch } from 'chokidar'

/** What comes within it is one look: a save is several events, a ConfigMap's swap five. */
const DEBOUNCE_MS = 100
const POLL_MS = 60_000

export interface FileWatchOptions {
  /** Absolute. It need not exist. */
  readonly file: string
  readonly clock: Clock
  /** Called when the file may have changed; whether it has is for the callee to see. */
  readonly look: () => void
  /** Called when the file cannot be watched; the poll goes on. */
  readonly onError: (error: unknown) => void
}

/** Watches the directories of the file and of every symbolic link on the way to it, as they are at each look. */
export class FileWatch implements AsyncDisposable {
  readonly #options: FileWatchOptions
  #watcher: FSWatcher | undefined
  #watched = ''
  #closed: Promise<unknown> = Promise.resolve()
  #hint: Disposable | undefined
  #poll: Disposable

  constructor(options: FileWatchOptions) {
    this.#options = options
    this.#follow()
    this.#poll = this.#nextPoll()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#hint?.[Symbol.dispose]()
    this.#poll[Symbol.dispose]()
    await Promise.all([this.#closed, this.#watcher?.close()])
  }

  #nextPoll(): Disposable {
    const { clock } = this.#options
    return clock.at(clock.now() + POLL_MS, () => {
      this.#poll = this.#nextPoll()
      this.#look()
    })
  }

  #onHint(): void {
    const { clock } = this.#options
    this.#hint ??= clock.at(clock.now() + DEBOUNCE_MS, () => {
      this.#hint = undefined
      this.#look()
    })
  }

  #look(): void {
    this.#follow()
    this.#options.look()
  }

  /** Links and directories may be others than at the last look. */
  #follow(): void {
    const paths = pathsTo(this.#options.file)
    const directories = [...new Set(paths.map(dirname))]
    const watched = JSON.stringify([paths, directories.map(inode)])
    if (watched === this.#watched) return
    this.#watched = watched
    this.#closed = Promise.all([this.#closed, this.#watcher?.close()])
    const wanted = new Set([...directories, ...paths])
    this.#watcher = watch(directories, {
      depth: 0,
      followSymlinks: false,
      ignoreInitial: true,
      // A directory may have thousands of other files.
      ignored: path => !wanted.has(path),
    })
      .on('all', () => this.#onHint())
      // What happened while the watch was set up was not seen.
      .on('ready', () => this.#onHint())
      .on('error', error => this.#options.onError(error))
  }
}

/** More links than the kernel follows. */
const MAX_LINKS = 40

/** Every path whose replacement changes what is read at `file`: the symbolic links on the way, and where they end. */
export function pathsTo(file: string): string[] {
  const links: string[] = []
  const rest = namesOf(file)
  let place = '/'
  for (let name = rest.shift(); name !== undefined && links.length < MAX_LINKS; name = rest.shift()) {
    const next = join(place, name)
    const target = linkTarget(next)
    if (target === undefined) {
      place = next
      continue
    }
    links.push(next)
    rest.unshift(...namesOf(resolve(place, target)))
    place = '/'
  }
  return [...links, place]
}

function namesOf(path: string): string[] {
  return path.split('/').filter(name => name !== '')
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    // No link, or nothing there.
    return undefined
  }
}

function inode(directory: string): number | undefined {
  return statSync(directory, { throwIfNoEntry: false })?.ino
}
