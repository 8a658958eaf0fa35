/** The one way to listen: each event goes to every subscriber. */

export class Events<E> {
  /** Replaced when somebody comes or goes, so that a listener may do so while it is called. */
  #listeners: readonly ((event: E) => void)[] = []

  /** Calls `listener`, which must not throw, synchronously with the change. Disposing ends that. */
  subscribe(listener: (event: E) => void): Disposable {
    let isOn = true
    const own = (event: E) => {
      if (isOn) listener(event)
    }
    this.#listeners = [...this.#listeners, own]
    return {
      [Symbol.dispose]: () => {
        isOn = false
        this.#listeners = this.#listeners.filter(each => each !== own)
      },
    }
  }

  emit(event: E): void {
    for (const listener of this.#listeners) listener(event)
  }
}
