/** Who watches which secret. */

import type { SecretItem } from './secret-item.ts'

export type Listener = (item: SecretItem | undefined) => void

/** Listeners by key; a key without a listener has no entry. */
export type Subscribers<Key> = Map<Key, Set<Listener>>

/** Disposing it ends the calls of its listener. A class, since each open stream has two: closures would cost 0.2 kB more. */
export class Subscription<Key> implements Disposable {
  readonly #all: Subscribers<Key>
  readonly #key: Key
  readonly #listeners: Set<Listener>
  readonly #listener: Listener
  readonly #onLast: ((key: Key) => void) | undefined

  /** `onLast` is called when the last listener of the key has left. */
  constructor(all: Subscribers<Key>, key: Key, listener: Listener, onLast?: (key: Key) => void) {
    this.#all = all
    this.#key = key
    this.#listeners = all.get(key) ?? new Set()
    this.#listener = listener
    this.#onLast = onLast
    all.set(key, this.#listeners.add(listener))
  }

  [Symbol.dispose](): void {
    if (!this.#listeners.delete(this.#listener) || this.#listeners.size > 0) return
    // If all were cleared meanwhile, a new set may have taken its place.
    if (this.#all.get(this.#key) === this.#listeners) this.#all.delete(this.#key)
    this.#onLast?.(this.#key)
  }
}

/** Calls every listener in `listeners`. */
export function notify(listeners: Iterable<Listener> | undefined, item: SecretItem | undefined): void {
  for (const listener of listeners ?? []) listener(item)
}
