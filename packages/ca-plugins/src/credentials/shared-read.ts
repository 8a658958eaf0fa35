/** Shares one read of a file among the calls that arrive during the previous read: a thousand certificates need one token. */

export class SharedRead<T> {
  readonly #readFile: (path: string) => Promise<T>
  /** Reads that have not begun: a caller that joins one gets what the file holds after the call. */
  readonly #next = new Map<string, Promise<T>>()
  readonly #current = new Map<string, Promise<T>>()

  constructor(readFile: (path: string) => Promise<T>) {
    this.#readFile = readFile
  }

  /** Settles with a read of `path` that begins after this call. The result is not cached. */
  read(path: string): Promise<T> {
    const present = this.#next.get(path)
    if (present !== undefined) return present
    const next = this.#readAfterCurrent(path)
    this.#next.set(path, next)
    return next
  }

  async #readAfterCurrent(path: string): Promise<T> {
    await this.#current.get(path)?.catch(() => {})
    // Callers in this turn of the event loop share the read, too.
    await new Promise(resolve => setImmediate(resolve))
    this.#next.delete(path)
    const reading = this.#readFile(path)
    this.#current.set(path, reading)
    try {
      return await reading
    } finally {
      if (this.#current.get(path) === reading) this.#current.delete(path)
    }
  }
}
