/** Says when to look at files again: watches of their directories as the hint, and a slow poll, since watches are lost. */
import { type FSWatcher, lstatSync, readlinkSync, type Stats, statSync, watch } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import type { Clock } from '../time/clock.ts'

/** What comes within it is one look: a save is several events, a ConfigMap's swap five. */
const DEBOUNCE_MS = 100
/** Multiples of the golden ratio leave no two polls of many close together. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2
/** Links that are replaced again and again while they are followed: the poll finds where they ended. */
const MAX_ROUNDS = 5

export interface WatchedFilesOptions {
  readonly clock: Clock
  /** How often each set is looked at whatever the watches tell, milliseconds. Default: 60,000. */
  readonly pollMs?: number
  /** Called when a directory cannot be watched, once for each error code; the polls go on. */
  readonly onError: (error: unknown) => void
}

/** Why files are looked at: somebody wrote to them, perhaps, or it was time. */
export type LookReason = 'event' | 'poll'

/** Files that are looked at together. */
interface FileSet {
  readonly files: readonly string[]
  readonly look: (reason: LookReason) => void
  /** What a change of is a hint: the files, and the symbolic links on the way to them. */
  places: ReadonlySet<string>
  hint: Disposable | undefined
  poll: Disposable | undefined
}

interface Directory {
  readonly watcher: FSWatcher
  /** Which one stood at the path when the watch was set up. */
  readonly inode: string
}

/**
 * Any number of sets of files under one watch for each directory; a thousand cost 1 MB. The directories of the files and of
 * every symbolic link on the way are watched, as they are at each look; of what does not exist, the nearest directory that
 * does. Links are read synchronously.
 */
export class WatchedFiles implements Disposable {
  readonly #options: WatchedFilesOptions
  readonly #pollMs: number
  readonly #sets = new Set<FileSet>()
  readonly #directories = new Map<string, Directory>()
  /** Who wants to know of a path, by directory and name. */
  readonly #interest = new Map<string, Map<string, Set<FileSet>>>()
  readonly #told = new Set<unknown>()
  #added = 0

  constructor(options: WatchedFilesOptions) {
    this.#options = options
    this.#pollMs = options.pollMs ?? 60_000
  }

  /**
   * Calls `look` when one of `files` (absolute paths, which need not exist) may have changed since this call; whether it
   * has is for the callee to see. `look` must not throw.
   */
  add(files: readonly string[], look: (reason: LookReason) => void): Disposable {
    const set: FileSet = { files, look, places: new Set(), hint: undefined, poll: undefined }
    this.#sets.add(set)
    this.#follow(set)
    this.#pollAfter(set, this.#pollMs * (1 - ((this.#added++ * GOLDEN_RATIO) % 1)))
    return { [Symbol.dispose]: () => this.#remove(set) }
  }

  [Symbol.dispose](): void {
    for (const set of this.#sets) this.#remove(set)
  }

  #remove(set: FileSet): void {
    this.#sets.delete(set)
    set.hint?.[Symbol.dispose]()
    set.poll?.[Symbol.dispose]()
    for (const place of set.places) this.#leave(place, set)
    set.places = new Set()
  }

  #pollAfter(set: FileSet, ms: number): void {
    const { clock } = this.#options
    set.poll = clock.at(clock.now() + ms, () => {
      this.#pollAfter(set, this.#pollMs)
      this.#look(set, 'poll')
    })
  }

  #onHint(set: FileSet): void {
    const { clock } = this.#options
    set.hint ??= clock.at(clock.now() + DEBOUNCE_MS, () => {
      set.hint = undefined
      this.#look(set, 'event')
    })
  }

  #look(set: FileSet, reason: LookReason): void {
    this.#follow(set)
    set.look(reason)
  }

  #follow(set: FileSet): void {
    // What changed before a watch was set up was not seen.
    for (let round = 0; round < MAX_ROUNDS && this.#followOnce(set); round++);
  }

  /** Whether a watch was set up. */
  #followOnce(set: FileSet): boolean {
    const left = set.places
    set.places = new Set(set.files.flatMap(pathsTo))
    for (const place of set.places) this.#enter(place, set)
    for (const place of left) if (!set.places.has(place)) this.#leave(place, set)
    const directories = new Set(Array.from(set.places, dirname))
    return [...directories].map(directory => this.#watch(directory)).includes(true)
  }

  #enter(place: string, set: FileSet): void {
    const directory = dirname(place)
    const name = basename(place)
    const names = this.#interest.get(directory) ?? new Map<string, Set<FileSet>>()
    this.#interest.set(directory, names)
    names.set(name, (names.get(name) ?? new Set()).add(set))
  }

  #leave(place: string, set: FileSet): void {
    const directory = dirname(place)
    const names = this.#interest.get(directory)
    const sets = names?.get(basename(place))
    sets?.delete(set)
    if (sets?.size === 0) names?.delete(basename(place))
    if (names?.size !== 0) return
    this.#interest.delete(directory)
    this.#unwatch(directory)
  }

  /** Whether a watch was set up: there was none, or for a directory that is another now. */
  #watch(path: string): boolean {
    const inode = inodeOf(path)
    if (inode === undefined || this.#directories.get(path)?.inode === inode) return false
    this.#unwatch(path)
    try {
      const watcher = watch(path, (_, name) => this.#onEvent(path, name))
      watcher.on('error', error => {
        this.#unwatch(path)
        this.#tell(error)
      })
      this.#directories.set(path, { watcher, inode })
      return true
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') this.#tell(error)
      return false
    }
  }

  #unwatch(path: string): void {
    this.#directories.get(path)?.watcher.close()
    this.#directories.delete(path)
  }

  #onEvent(directory: string, name: string | null): void {
    const names = this.#interest.get(directory)
    const sets = name === null ? undefined : names?.get(name)
    if (sets) for (const set of sets) this.#onHint(set)
    // An event of the directory itself carries its own name: it may have gone, and another of the same inode have come.
    if (name !== null && name !== basename(directory)) return
    this.#unwatch(directory)
    for (const each of names?.values() ?? []) for (const set of each) this.#onHint(set)
  }

  #tell(error: unknown): void {
    const code = codeOf(error)
    if (this.#told.has(code)) return
    this.#told.add(code)
    this.#options.onError(error)
  }
}

/** More links than the kernel follows. */
const MAX_LINKS = 40

/**
 * Every path whose replacement changes what is read at `file`: the symbolic links on the way, and where they end, or the
 * first of the names on the way that does not exist.
 */
export function pathsTo(file: string): string[] {
  const links: string[] = []
  const rest = namesOf(file)
  let place = '/'
  for (let name = rest.shift(); name !== undefined && links.length < MAX_LINKS; name = rest.shift()) {
    const next = join(place, name)
    const found = statsOf(next)
    // Reading what is no link would throw, which costs more than all the rest.
    const target = found?.isSymbolicLink() ? targetOf(next) : undefined
    if (target !== undefined) {
      links.push(next)
      rest.unshift(...namesOf(resolve(place, target)))
      place = '/'
    } else if (rest.length > 0 && !found?.isDirectory()) return [...links, next]
    else place = next
  }
  return [...links, place]
}

function namesOf(path: string): string[] {
  return path.split('/').filter(name => name !== '')
}

function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link)
  } catch {
    return undefined
  }
}

function statsOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

function inodeOf(directory: string): string | undefined {
  try {
    const found = statSync(directory, { bigint: true, throwIfNoEntry: false })
    return found && `${found.dev}:${found.ino}`
  } catch {
    return undefined
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
