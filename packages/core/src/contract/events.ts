/** The one way to listen: things that happen, reported to everybody who subscribed. */

export class Events<E> {
  readonly #listeners = new Set<(event: E) => void>()

  /** Calls `listener`, which must not throw, inside the change that it hears of. Disposing ends that. */
  subscribe(listener: (event: E) => void): Disposable {
    const own = (event: E) => listener(event)
    this.#listeners.add(own)
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) }
  }

  emit(event: E): void {
    for (const listener of this.#listeners) listener(event)
  }
}
