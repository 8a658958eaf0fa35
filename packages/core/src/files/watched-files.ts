/** Says when to look at files again: watches of their folders as the hint, and a slow poll, since watches are lost. */

import { lstatSync, readlinkSync, type Stats, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { systemErrorCode } from '../text/system-error-code.ts'
import type { Clock } from '../time/clock.ts'
import { after } from '../time/deadline.ts'
import { stampOf } from './file-stamp.ts'
import { type FolderEvent, FolderWatches } from './folder-watches.ts'

/** Events within it are one look: a save is several events, a ConfigMap's swap five. */
const DEBOUNCE_MS = 100
/** How long a folder with too many events stays unwatched. */
const FLOOD_REST_MS = 1_000
/** Multiples of the golden ratio keep any number of polls apart. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2

/**
 * Why files are looked at: somebody wrote to them, perhaps, or it was time. `replaced`: a file, or a link on the way, came or
 * went, and nobody has written to it since, so that it is as whole as it was at its other place.
 */
export type LookReason = 'event' | 'replaced' | 'poll'

/** Files that are looked at together. */
interface FileSet {
  readonly files: readonly string[]
  readonly look: (reason: LookReason) => void
  /** The paths whose change is a hint: the files, and the symbolic links on the way to them. */
  places: ReadonlySet<string>
  /** The stamps of the places whose folder is not watched yet. */
  readonly unwatched: Map<string, string>
  hint: Disposable | undefined
  /** Whether the latest of the events behind the hint was a write, or one that may have been. */
  wasWritten: boolean
  poll: Disposable | undefined
}

/**
 * Any number of sets of files, with one watch for each folder; a thousand folders cost 5 MB of heap. At each look the
 * folders of the files and of every symbolic link on the way are watched; for a path that does not exist, its
 * nearest folder that does. Links are read synchronously and folders are watched soon after; a change in between causes
 * a look, too.
 */
export class WatchedFiles implements Disposable {
  readonly #clock: Clock
  readonly #notWatched: (error: unknown) => void
  readonly #pollMs: number
  readonly #sets = new Set<FileSet>()
  readonly #watches: FolderWatches
  /** The watched folders, each with its device and inode when its watch was requested. */
  readonly #folders = new Map<string, string>()
  /** Folders that stay unwatched for a while, since they had too many events. */
  readonly #resting = new Map<string, Disposable>()
  /** The sets that a path concerns, by folder and name. */
  readonly #interest = new Map<string, Map<string, Set<FileSet>>>()
  readonly #reported = new Set<unknown>()
  #added = 0

  /**
   * `notWatched` is called when a folder cannot be watched, once for each error code; the polls continue. `pollMs`: how often
   * each set is looked at whatever the watches report.
   */
  constructor(clock: Clock, notWatched: (error: unknown) => void, pollMs = 60_000) {
    this.#clock = clock
    this.#notWatched = notWatched
    this.#pollMs = pollMs
    this.#watches = new FolderWatches(clock, event => this.#take(event))
  }

  /**
   * Calls `look` when one of `files` (absolute paths, which need not exist) may have changed since this call; the callee
   * checks whether it has. `look` must not throw.
   */
  add(files: readonly string[], look: (reason: LookReason) => void): Disposable {
    const set: FileSet = {
      files,
      look,
      places: new Set(),
      unwatched: new Map(),
      hint: undefined,
      wasWritten: false,
      poll: undefined,
    }
    this.#sets.add(set)
    this.#follow(set)
    this.#pollAfter(set, this.#pollMs * (1 - ((this.#added++ * GOLDEN_RATIO) % 1)))
    return { [Symbol.dispose]: () => this.#remove(set) }
  }

  [Symbol.dispose](): void {
    for (const set of this.#sets) this.#remove(set)
    for (const rest of this.#resting.values()) rest[Symbol.dispose]()
    this.#watches[Symbol.dispose]()
  }

  #remove(set: FileSet): void {
    this.#sets.delete(set)
    set.hint?.[Symbol.dispose]()
    set.poll?.[Symbol.dispose]()
    for (const place of set.places) this.#leave(place, set)
    set.places = new Set()
  }

  #pollAfter(set: FileSet, ms: number): void {
    set.poll = after(this.#clock, ms, () => {
      this.#pollAfter(set, this.#pollMs)
      this.#follow(set)
      set.look('poll')
    })
  }

  #hint(set: FileSet, isWrite?: boolean): void {
    // Kubernetes removes the previous folder once ..data has moved on.
    if (isWrite !== undefined || !set.hint) set.wasWritten = isWrite ?? true
    set.hint ??= after(this.#clock, DEBOUNCE_MS, () => {
      set.hint = undefined
      this.#follow(set)
      set.look(set.wasWritten ? 'event' : 'replaced')
    })
  }

  #follow(set: FileSet): void {
    const left = set.places
    set.places = new Set(set.files.flatMap(pathsTo))
    for (const place of set.places) this.#enter(place, set)
    for (const place of left) if (!set.places.has(place)) this.#leave(place, set)
    for (const [folder, places] of Map.groupBy(set.places, dirname))
      if (this.#watch(folder))
        for (const place of places) {
          set.unwatched.set(place, stampAt(place))
          // It is in another folder at the same path, and its arrival went unseen.
          if (left.has(place)) set.wasWritten = true
        }
  }

  #enter(place: string, set: FileSet): void {
    const folder = dirname(place)
    const name = basename(place)
    const names = this.#interest.get(folder) ?? new Map<string, Set<FileSet>>()
    this.#interest.set(folder, names)
    names.set(name, (names.get(name) ?? new Set()).add(set))
  }

  #leave(place: string, set: FileSet): void {
    const folder = dirname(place)
    const names = this.#interest.get(folder)
    const sets = names?.get(basename(place))
    sets?.delete(set)
    set.unwatched.delete(place)
    if (sets?.size === 0) names?.delete(basename(place))
    if (names?.size !== 0) return
    this.#interest.delete(folder)
    this.#unwatch(folder)
  }

  /** Whether the folder is not watched yet: there was no watch, or the watch is on a replaced folder. */
  #watch(path: string): boolean {
    const inode = inodeOf(path)
    if (inode === undefined) return false
    if (this.#resting.has(path)) return true
    if (this.#folders.get(path) === inode) return this.#watches.isWaiting(path)
    this.#folders.set(path, inode)
    this.#watches.add(path)
    return true
  }

  #unwatch(path: string): void {
    if (this.#folders.delete(path)) this.#watches.delete(path)
  }

  #take(event: FolderEvent): void {
    if (event.kind === 'changed') this.#changed(event.folder, event.name, event.isWrite)
    else if (event.kind === 'watched') this.#hintMissed(event.folder)
    else if (event.kind === 'flooded') this.#rest(event.folder)
    else this.#tryLater(event.folder, event.error)
  }

  #changed(folder: string, name: string | undefined, isWrite: boolean | undefined): void {
    const names = this.#interest.get(folder)
    const sets = name === undefined ? undefined : names?.get(name)
    if (sets) for (const set of sets) this.#hint(set, isWrite)
    // An event of the folder itself carries its own name: the folder may have been replaced by one with the same inode.
    if (name !== undefined && name !== basename(folder)) return
    this.#unwatch(folder)
    this.#hintAll(folder)
  }

  /** Looks at its files after a pause, which watches the folder again. */
  #rest(folder: string): void {
    this.#folders.delete(folder)
    const rest = after(this.#clock, FLOOD_REST_MS, () => {
      this.#resting.delete(folder)
      this.#hintAll(folder)
    })
    this.#resting.get(folder)?.[Symbol.dispose]()
    this.#resting.set(folder, rest)
  }

  #hintAll(folder: string): void {
    for (const sets of this.#interest.get(folder)?.values() ?? []) for (const set of sets) this.#hint(set)
  }

  /** A change between a look and the watch was not seen. */
  #hintMissed(folder: string): void {
    for (const [name, sets] of this.#interest.get(folder) ?? []) {
      const place = join(folder, name)
      for (const set of sets) {
        const stamp = set.unwatched.get(place)
        set.unwatched.delete(place)
        const now = stampAt(place)
        if (stamp !== undefined && stamp !== now) this.#hint(set, now !== MISSING)
      }
    }
  }

  /** A folder that is not watched is tried again at the next look. */
  #tryLater(folder: string | undefined, error: unknown): void {
    if (folder !== undefined) this.#unwatch(folder)
    const code = systemErrorCode(error)
    if (this.#reported.has(code)) return
    this.#reported.add(code)
    this.#notWatched(error)
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
    // `readlink` throws for any other entry, which costs more than all the rest.
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

const MISSING = 'missing'

/** The stamp of the file or link itself. */
function stampAt(path: string): string {
  try {
    const found = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    return found ? stampOf(found) : MISSING
  } catch {
    return MISSING
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
