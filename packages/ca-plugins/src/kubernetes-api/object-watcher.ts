/** Mirrors the objects of the API server in a table: lists, then watches, and lists again when a watch cannot continue. */
import { after, backoff, CAError, type Clock, sleep } from '@livery/core/plugin'
import { type ObjectPage, type ObjectsApi, UnusableListError } from './objects-api.ts'
import type { WatchEvent } from './watch-events.ts'

/** How current the table is. */
export type WatchState =
  /** No list has arrived yet. */
  | { readonly kind: 'unknown'; readonly error: string | undefined }
  | { readonly kind: 'watching' }
  /** The API server does not answer. The objects are the last that it described. */
  | { readonly kind: 'away'; readonly error: string }

/** Keeps a `T` of each object. What the server sent is not checked yet. */
export interface ObjectTable<T> {
  /** The most objects that the table takes. */
  readonly maxObjects: number
  /** Extracts what the table keeps of an object, which may be unusable. */
  read(object: unknown): T
  /** Replaces all objects. */
  replace(objects: readonly T[]): void
  put(object: unknown): void
  delete(object: unknown): void
}

export interface ObjectWatcherOptions<T> {
  readonly api: Pick<ObjectsApi, 'list' | 'watch'>
  readonly table: ObjectTable<T>
  readonly clock: Clock
  /** A number in [0, 1). Default: `Math.random`. */
  readonly random?: () => number
  /** Called when the state has changed. */
  readonly onState: (state: WatchState) => void
}

const RETRY = { minMs: 1_000, maxMs: 30_000 }
/** A server sends a bookmark once a minute: after this silence the connection may be dead. */
const SILENCE_MS = 120_000
/** A shorter watch counts as a failure. */
const SHORT_MS = 30_000
/** A list recovers what a watch has lost. It comes after one to one and a half times this: the nodes of a cluster must not list at once. */
const RESYNC_MS = 1_800_000
/** Enough for every pod that a node may have, in pages of four. */
const MAX_PAGES = 1_024

export class ObjectWatcher<T> implements AsyncDisposable {
  readonly #options: Required<ObjectWatcherOptions<T>>
  readonly #ending = new AbortController()
  readonly #running: Promise<void>
  #state: WatchState = { kind: 'unknown', error: undefined }
  /** Failures and short watches, in a row. */
  #failures = 0

  /** Starts at once. */
  constructor(options: ObjectWatcherOptions<T>) {
    this.#options = { random: Math.random, ...options }
    this.#running = this.#run()
  }

  get state(): WatchState {
    return this.#state
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(new Error('the agent is shutting down'))
    await this.#running
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#ending
    while (!signal.aborted) {
      try {
        await this.#listAndWatch(signal)
      } catch (error) {
        if (signal.aborted) return
        this.#fail(error)
        await this.#wait(error instanceof CAError ? error.retryAfterMs : undefined)
      }
    }
  }

  /** Resolves when it is time to list again. */
  async #listAndWatch(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options
    let version = await this.#list(signal)
    const resyncAt = clock.now() + RESYNC_MS * (1 + random() / 2)
    this.#hear()
    while (clock.now() < resyncAt) {
      const begun = clock.now()
      const end = await this.#watch(version, resyncAt, signal)
      if (clock.now() >= begun + SHORT_MS) this.#failures = 0
      await this.#wait()
      // A watch without an event may have been refused, or the server is gone: a list says which.
      if (end === undefined || end.version === version) return
      version = end.version
    }
  }

  /** Resolves with the version of the list. */
  async #list(signal: AbortSignal): Promise<string> {
    const { api, table } = this.#options
    const { maxObjects } = table
    const objects: T[] = []
    let page: ObjectPage | undefined
    for (let count = 0; count < MAX_PAGES; count++) {
      page = await api.list(page?.next, signal)
      // The rest of the page is not kept.
      for (const item of page.items.slice(0, maxObjects - objects.length)) objects.push(table.read(item))
      if (page.next !== undefined && objects.length < maxObjects) continue
      table.replace(objects)
      return page.resourceVersion
    }
    throw new UnusableListError('Cannot read what the API server lists: the list does not end')
  }

  /** Resolves with the version to continue from, `undefined` if there is none any more. Ends at `resyncAt`: a server need never end a watch. */
  async #watch(from: string, resyncAt: number, signal: AbortSignal): Promise<{ readonly version: string } | undefined> {
    const { api, clock } = this.#options
    const ending = new AbortController()
    using _resync = clock.at(resyncAt, () => ending.abort(new Error('a list is due')))
    const fallSilent = () =>
      after(clock, SILENCE_MS, () => ending.abort(new Error('nothing was heard for two minutes')))
    let timer = fallSilent()
    let version = from
    try {
      for await (const event of api.watch(from, AbortSignal.any([signal, ending.signal]))) {
        timer[Symbol.dispose]()
        timer = fallSilent()
        const next = this.#follow(event)
        if (next === undefined) return undefined
        version = next
        this.#hear()
      }
    } catch (error) {
      if (!ending.signal.aborted || signal.aborted) throw error
    } finally {
      timer[Symbol.dispose]()
    }
    return { version }
  }

  /** The version of `event`; `undefined` for an event after which the watch cannot continue. */
  #follow({ type, object }: WatchEvent): string | undefined {
    const { table } = this.#options
    if (type === 'ADDED' || type === 'MODIFIED') table.put(object)
    else if (type === 'DELETED') table.delete(object)
    else if (type !== 'BOOKMARK') return undefined
    const { resourceVersion } = Object(Object(object).metadata)
    return typeof resourceVersion === 'string' && resourceVersion.length <= 256 ? resourceVersion : undefined
  }

  #hear(): void {
    if (this.#state.kind !== 'watching') this.#change({ kind: 'watching' })
  }

  #fail(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error)
    const { kind } = this.#state
    if (kind !== 'watching' && this.#state.error === text) return
    this.#change({ kind: kind === 'unknown' ? kind : 'away', error: text })
  }

  #change(state: WatchState): void {
    this.#state = state
    this.#options.onState(state)
  }

  /** Waits longer after each failure in a row, and differently on each node. Resolves on abort, too. */
  async #wait(atLeastMs = 0): Promise<void> {
    const { clock, random } = this.#options
    const ms = backoff(++this.#failures, RETRY) * (0.5 + random())
    await sleep(clock, Math.max(ms, Math.min(atLeastMs, RETRY.maxMs)), this.#ending.signal).catch(() => {})
  }
}
