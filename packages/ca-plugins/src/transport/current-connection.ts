/** The one open connection to a service, made again when the files behind it have changed. */
import type { CAContext, TlsMaterial } from '@livery/core'

export interface Connection {
  /** Whether the next call should connect again. Default: `false`. */
  readonly isWorn?: boolean
  /** Called once, when no call is open. */
  close(): Promise<void> | void
}

interface Held<C> {
  readonly connection: C
  readonly material: TlsMaterial
  calls: number
  retired: boolean
}

const SYSTEM_ROOTS: TlsMaterial = {}

export class CurrentConnection<C extends Connection> implements AsyncDisposable {
  readonly #tls: NonNullable<CAContext['tls']>
  readonly #connect: (material: TlsMaterial) => C
  readonly #closing = new Set<Promise<void>>()
  #isClosed = false
  #held: Held<C> | undefined

  constructor(tls: CAContext['tls'], connect: (material: TlsMaterial) => C) {
    this.#tls = tls ?? (async () => SYSTEM_ROOTS)
    this.#connect = connect
  }

  /** Settles as `call` does, and rejects as `tls()` of the context does. */
  async use<T>(call: (connection: C) => Promise<T>): Promise<T> {
    const material = await this.#tls()
    // The caller has aborted it, and nobody would close what it opens.
    if (this.#isClosed) throw new Error('Cannot connect: the connection is closed.')
    const held = this.#current(material)
    held.calls++
    try {
      return await call(held.connection)
    } finally {
      held.calls--
      this.#closeIfDone(held)
    }
  }

  /** Makes the next call connect again. */
  drop(connection: C): void {
    if (this.#held?.connection === connection) this.#retire()
  }

  /** Waits for the open calls, which the caller has aborted. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    this.#retire()
    await Promise.all(this.#closing)
  }

  #current(material: TlsMaterial): Held<C> {
    if (this.#held?.material === material && !this.#held.connection.isWorn) return this.#held
    const held = { connection: this.#connect(material), material, calls: 0, retired: false }
    this.#retire()
    this.#held = held
    return held
  }

  #retire(): void {
    const held = this.#held
    if (!held) return
    this.#held = undefined
    held.retired = true
    this.#closeIfDone(held)
  }

  #closeIfDone(held: Held<C>): void {
    if (!held.retired || held.calls > 0) return
    const closing = Promise.resolve(held.connection.close()).finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
  }
}
