/** The events of the page: each listener gets the newest state, as fast as it reads. Without listeners it does nothing. */
import type { IdentityEntry } from '@livery/core'
import { after, Semaphore, sleep } from '@livery/core/plugin'
import type { AdminSource } from '../admin/admin-source.ts'
import type { FeedClient } from '../admin/answer.ts'
import { momentOf } from '../diagnosis/diagnosis.ts'
import type { Moment } from '../diagnosis/identity-verdict.ts'
import { LoopTurns } from '../observe/loop-turns.ts'
import { SharedWork } from '../observe/shared-work.ts'
import { identityRow, rowSignature } from './identity-row.ts'
import { composeSections, SECTIONS, type SectionTexts } from './sections.ts'
import type { PageHello } from './state.ts'

/** Limits of one message, whichever comes first: a listener that does not read has no more than this unsent. */
const MAX_ROWS = 200
const MAX_CHARS = 64 * 1024
/** Time between two messages, unless one cannot hold all rows. */
const INTERVAL_MS = 250
/** Time between two looks at the sections. */
const LOOK_MS = 1_000
/** A link that is silent for longer is dead. */
const HEARTBEAT_MS = 15_000
/** Callers that wait for the next look: more than there can be listeners and readers of the state. */
const MAX_WAITING = 64

export class PageFeed {
  readonly #source: AdminSource
  readonly #sections: SharedWork<SectionTexts>
  readonly #listeners = new Set<Listener>()
  /** The last row of each identity that was sent to a listener, by {@link rowSignature}; empty without listeners. */
  readonly #seen = new Map<string, string>()
  /** Composes one message at a time, in slices: sending it and starting the next take one turn of the event loop. */
  readonly #composing = new Semaphore(1)
  readonly #turns = new LoopTurns()
  #latest: SectionTexts | undefined
  #listening: Disposable | undefined

  constructor(source: AdminSource) {
    this.#source = source
    this.#sections = new SharedWork(turns => {
      const moment = momentOf(source)
      return composeSections(source, turns, entry => {
        if (this.#listeners.size > 0) this.#note(entry, moment)
      })
    }, MAX_WAITING)
  }

  /** The sections, from a look that starts after this call; `undefined` if too many wait for it. */
  sections(): Promise<SectionTexts> | undefined {
    return this.#sections.result()
  }

  /** A `PageState` in pieces of one identity each. */
  *state(sections: SectionTexts): Generator<string, void, undefined> {
    const identities = [...this.#source.identities()]
    yield `{"hello":${JSON.stringify(this.#hello(identities.length))},`
    for (const section of SECTIONS) yield `"${section}":${sections[section]},`
    yield '"identities":['
    let separator = '\n'
    for (const identity of identities) {
      const entry = this.#source.entry(identity)
      if (!entry) continue
      yield `${separator}${JSON.stringify(identityRow(entry, momentOf(this.#source)))}`
      separator = ',\n'
    }
    yield '\n]}\n'
  }

  /** Sends to `client` until it leaves; rejects then with the reason of its signal, or with a fault of ours. */
  async follow(client: FeedClient): Promise<void> {
    const { gone } = client
    const identities = [...this.#source.identities()]
    const listener = new Listener(identities)
    gone.addEventListener('abort', () => listener.wake(), { once: true })
    this.#listeners.add(listener)
    this.#listening ??= this.#listen()
    try {
      let id = 0
      await client.write(eventText('hello', ++id, JSON.stringify(this.#hello(identities.length))))
      for (;;) {
        await this.#change(listener, gone)
        const message = await this.#composing.run(() => this.#compose(listener))
        await client.write(message === undefined ? ': nothing has changed\n\n' : eventText('change', ++id, message))
        if (listener.behind === 0) await sleep(this.#source.clock, INTERVAL_MS, gone)
      }
    } finally {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#quieten()
    }
  }

  #hello(identities: number): PageHello {
    const { version, trustDomain, clock } = this.#source
    return { version, trustDomain, startedAt: Math.round(performance.timeOrigin), now: clock.now(), identities }
  }

  /** Starts with the first listener. */
  #listen(): Disposable {
    const stop = new AbortController()
    const changes = this.#source.onChange(name => this.#onChange(name))
    void this.#look(stop.signal)
    return {
      [Symbol.dispose]: () => {
        changes[Symbol.dispose]()
        stop.abort()
      },
    }
  }

  #quieten(): void {
    this.#listening?.[Symbol.dispose]()
    this.#listening = undefined
    this.#latest = undefined
    this.#seen.clear()
  }

  /** Never rejects: a fault ends every listener. */
  async #look(stop: AbortSignal): Promise<void> {
    try {
      while (!stop.aborted) {
        const sections = await this.sections()
        if (stop.aborted) return
        if (sections) this.#take(sections)
        await sleep(this.#source.clock, LOOK_MS, stop)
      }
    } catch (error) {
      if (stop.aborted) return
      for (const listener of this.#listeners) listener.fail(error)
      this.#quieten()
    }
  }

  #take(sections: SectionTexts): void {
    if (SECTIONS.every(section => sections[section] === this.#latest?.[section])) return
    this.#latest = sections
    for (const listener of this.#listeners) listener.wake()
  }

  #onChange(name: string): void {
    // Trust domains and files have no rows.
    if (!this.#seen.has(name) && !this.#source.entry(name)) return
    for (const listener of this.#listeners) listener.mark(name)
  }

  /** Some changes have no event: a certificate that waits for its renewal. `known`: the listener that has this row. */
  #note(entry: IdentityEntry, moment: Moment, known?: Listener): void {
    const { identity } = entry
    const signature = rowSignature(entry, moment)
    const before = this.#seen.get(identity)
    if (before === signature) return
    // A listener gets it anyway, or it is new: a later look finds it again.
    if (before === undefined && !known && [...this.#listeners].some(({ isLoading }) => isLoading)) return
    this.#seen.set(identity, signature)
    for (const listener of this.#listeners)
      if (listener !== known && (before !== undefined || !listener.isLoading)) listener.mark(identity)
  }

  /** Resolves when there is something to send, or after {@link HEARTBEAT_MS}. Rejects with the reason of `gone`, or a fault. */
  async #change(listener: Listener, gone: AbortSignal): Promise<void> {
    let isLate = false
    using _timer = after(this.#source.clock, HEARTBEAT_MS, () => {
      isLate = true
      listener.wake()
    })
    while (!isLate && !gone.aborted && !listener.isBehind(this.#latest)) await listener.woken()
    gone.throwIfAborted()
  }

  /** The data of the next event; `undefined` if nothing has changed. */
  async #compose(listener: Listener): Promise<string | undefined> {
    const { identities, gone } = await this.#composeRows(listener)
    const fields = [
      `"now":${this.#source.clock.now()}`,
      ...(identities.length > 0 ? [`"identities":[${identities.join()}]`] : []),
      ...(gone.length > 0 ? [`"gone":${JSON.stringify(gone)}`] : []),
      ...(listener.behind > 0 ? [`"more":${listener.behind}`] : []),
      ...this.#newSections(listener),
    ]
    return fields.length > 1 ? `{${fields.join(',')}}` : undefined
  }

  async #composeRows(listener: Listener): Promise<{ identities: readonly string[]; gone: readonly string[] }> {
    const identities: string[] = []
    const gone: string[] = []
    const moment = momentOf(this.#source)
    let chars = 0
    for (const name of listener.take()) {
      const entry = this.#source.entry(name)
      if (entry) this.#note(entry, moment, listener)
      else this.#seen.delete(name)
      const row = entry ? JSON.stringify(identityRow(entry, moment)) : name
      ;(entry ? identities : gone).push(row)
      chars += row.length
      if (identities.length + gone.length === MAX_ROWS || chars >= MAX_CHARS) break
      await this.#turns.next()
    }
    await this.#turns.next()
    return { identities, gone }
  }

  #newSections(listener: Listener): readonly string[] {
    const latest = this.#latest
    if (!latest) return []
    const changed = SECTIONS.filter(section => latest[section] !== listener.sections?.[section])
    listener.sections = latest
    return changed.map(section => `"${section}":${latest[section]}`)
  }
}

/** One open page, with its unsent changes. A row that changes again before it is sent is sent once. */
class Listener {
  /** The sections as last sent. */
  sections: SectionTexts | undefined
  /** Names whose first row is unsent, in reverse order. A list, since filling a set takes longer. */
  readonly #first: string[]
  /** Names of rows that have changed. */
  readonly #changed = new Set<string>()
  #woken = Promise.withResolvers<void>()
  #fault: { readonly error: unknown } | undefined

  constructor(identities: string[]) {
    this.#first = identities.reverse()
  }

  /** Number of unsent rows. */
  get behind(): number {
    return this.#changed.size + this.#first.length
  }

  /** Whether its first rows are still unsent. */
  get isLoading(): boolean {
    return this.#first.length > 0
  }

  /** Takes the names of unsent rows one by one, changed rows first. */
  *take(): Generator<string, void, undefined> {
    for (const name of this.#changed) {
      this.#changed.delete(name)
      yield name
    }
    for (let name = this.#first.pop(); name !== undefined; name = this.#first.pop()) yield name
  }

  isBehind(latest: SectionTexts | undefined): boolean {
    if (this.#fault) throw this.#fault.error
    return this.behind > 0 || latest !== this.sections
  }

  mark(name: string): void {
    this.#changed.add(name)
    this.wake()
  }

  fail(error: unknown): void {
    this.#fault = { error }
    this.wake()
  }

  wake(): void {
    this.#woken.resolve()
  }

  async woken(): Promise<void> {
    await this.#woken.promise
    this.#woken = Promise.withResolvers()
  }
}

/** Relies on JSON being one line. */
function eventText(event: 'hello' | 'change', id: number, data: string): string {
  return `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`
}
