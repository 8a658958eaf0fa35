/** Entries for a while: a bounded number, each for the same time, or until it is taken. */
import { after, type Clock } from '@livery/core'

export interface ExpiringMapOptions<V> {
  readonly clock: Clock
  /** How long an entry stays, milliseconds. */
  readonly lifeMs: number
  /** Further entries are not taken in. */
  readonly maxEntries: number
  /** Called with each entry that nobody took in time, and with those that are left at the end. */
  readonly onExpired: (value: V) => void
}

export class ExpiringMap<V> implements Disposable {
  readonly #options: ExpiringMapOptions<V>
  /** In the order in which they end. */
  readonly #entries = new Map<string, { readonly value: V; readonly endsAt: number }>()
  #timer: Disposable | undefined

  constructor(options: ExpiringMapOptions<V>) {
    this.#options = options
  }

  get(key: string): V | undefined {
    return this.#entries.get(key)?.value
  }

  /** Replaces an entry of that key, which expires. `false` if there is no room. */
  set(key: string, value: V): boolean {
    const { clock, lifeMs, maxEntries } = this.#options
    this.expire(key)
    if (this.#entries.size >= maxEntries) return false
    this.#entries.set(key, { value, endsAt: clock.now() + lifeMs })
    this.#timer ??= after(clock, lifeMs, () => this.#sweep())
    return true
  }

  /** The entry, which is no longer here. */
  take(key: string): V | undefined {
    const entry = this.#entries.get(key)
    this.#entries.delete(key)
    return entry?.value
  }

  expire(key: string): void {
    const value = this.take(key)
    if (value !== undefined) this.#options.onExpired(value)
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]()
    for (const key of [...this.#entries.keys()]) this.expire(key)
  }

  #sweep(): void {
    const { clock } = this.#options
    this.#timer = undefined
    for (const [key, { endsAt }] of this.#entries) {
      if (endsAt > clock.now()) {
        this.#timer = after(clock, endsAt - clock.now(), () => this.#sweep())
        return
      }
      this.expire(key)
    }
  }
}
