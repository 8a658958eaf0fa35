/** Who watches which secret: the current version, each later one, and a way to report that somebody waits. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { SecretItem } from './secret-item.ts'
import type { SecretName } from './secret-name.ts'

/** Disposing it ends the calls of its listener. */
export interface Watch extends Disposable {
  /**
   * The newest version that is usable now, or `undefined` while there is none. Use it at once: its key is wiped when
   * the next version arrives.
   */
  readonly current: SecretItem | undefined
  /**
   * Reports that somebody waits: an identity without a certificate becomes urgent. An unknown identity is issued on
   * demand, and kept while it is used and there is room. Without room the ledger says so, and it is issued once there
   * is some. Does nothing for a bundle or files.
   */
  request(): void
}

/** The part of the manager that a watch uses. */
export interface Watchable {
  current(name: SecretName): SecretItem | undefined
  request(identity: SpiffeId): void
}

export class NameWatch implements Watch {
  readonly #source: Watchable
  readonly #name: SecretName
  readonly #subscription: Disposable

  constructor(source: Watchable, name: SecretName, subscription: Disposable) {
    this.#source = source
    this.#name = name
    this.#subscription = subscription
  }

  get current(): SecretItem | undefined {
    return this.#source.current(this.#name)
  }

  request(): void {
    if (this.#name.kind === 'identity') this.#source.request(this.#name.identity)
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]()
  }
}

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
