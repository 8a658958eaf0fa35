/** Which fetches run now: a bounded number at once, the most urgent first, in the order asked within one urgency. */

/** Somebody waits; nobody has it yet; it is still valid. */
export type Urgency = 'on-demand' | 'first' | 'renewal'

const ORDER: readonly Urgency[] = ['on-demand', 'first', 'renewal']

/** Runs tasks by urgency, at most `concurrency` at once. Nothing is dropped, however long the queue. */
export class FetchQueue<Key> {
  readonly #concurrency: number
  readonly #run: (key: Key) => Promise<void>
  readonly #waiting = new Map<Urgency, Set<Key>>(ORDER.map(urgency => [urgency, new Set()]))
  #running = 0

  /** `run` must not reject. */
  constructor(concurrency: number, run: (key: Key) => Promise<void>) {
    this.#concurrency = concurrency
    this.#run = run
  }

  /** Asking again raises the urgency, never lowers it, and never runs a key twice. */
  push(key: Key, urgency: Urgency): void {
    const present = ORDER.find(other => this.#waiting.get(other)?.has(key))
    if (present !== undefined) {
      if (ORDER.indexOf(present) <= ORDER.indexOf(urgency)) return
      this.#waiting.get(present)?.delete(key)
    }
    this.#waiting.get(urgency)?.add(key)
    this.#fill()
  }

  delete(key: Key): void {
    for (const keys of this.#waiting.values()) keys.delete(key)
  }

  #fill(): void {
    while (this.#running < this.#concurrency) {
      const key = this.#shift()
      if (key === undefined) return
      this.#running++
      void this.#run(key).finally(() => {
        this.#running--
        this.#fill()
      })
    }
  }

  #shift(): Key | undefined {
    for (const keys of this.#waiting.values()) {
      for (const key of keys) {
        keys.delete(key)
        return key
      }
    }
    return undefined
  }
}
