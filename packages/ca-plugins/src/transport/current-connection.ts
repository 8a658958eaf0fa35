/** The open connection to a service, replaced when the files behind it change. */
import { type TlsMaterial, untilAborted } from '@livery/core/plugin'

export interface Connection {
  /** Whether the next call should connect again. Default: `false`. */
  readonly isWorn?: boolean
  /** Called once, when no call is open. */
  close(): Promise<void> | void
}

interface Held<C, M> {
  readonly connection: C
  readonly material: M
  calls: number
}

/** One use of a connection, until it is disposed. */
interface Lease<C> extends Disposable {
  readonly connection: C
}

export class CurrentConnection<C extends Connection, M = TlsMaterial> implements AsyncDisposable {
  readonly #material: () => Promise<M>
  readonly #connect: (material: M) => C
  readonly #closing = new Set<Promise<void>>()
  #isClosed = false
  #held: Held<C, M> | undefined

  /** `material` resolves with the same object while the connection made with it is good. */
  constructor(material: () => Promise<M>, connect: (material: M) => C) {
    this.#material = material
    this.#connect = connect
  }

  /** Settles as `call` does, and rejects as `material` does. */
  async use<T>(call: (connection: C) => Promise<T>): Promise<T> {
    using lease = await this.lease()
    return await call(lease.connection)
  }

  /** Rejects as `material` does, or with the signal's reason. */
  async lease(signal?: AbortSignal): Promise<Lease<C>> {
    const material = await (signal ? untilAborted(this.#material(), signal) : this.#material())
    // A connection that is opened now would never be closed.
    if (this.#isClosed) throw new Error('Cannot connect: the connection is closed.')
    const held = this.#current(material)
    held.calls++
    return {
      connection: held.connection,
      [Symbol.dispose]: () => {
        held.calls--
        this.#closeIfDone(held)
      },
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

  #current(material: M): Held<C, M> {
    if (this.#held?.material === material && !this.#held.connection.isWorn) return this.#held
    const held = { connection: this.#connect(material), material, calls: 0 }
    this.#retire()
    this.#held = held
    return held
  }

  #retire(): void {
    const held = this.#held
    if (!held) return
    this.#held = undefined
    this.#closeIfDone(held)
  }

  #closeIfDone(held: Held<C, M>): void {
    if (held === this.#held || held.calls > 0) return
    const closing = Promise.resolve(held.connection.close()).finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
  }
}

const SYSTEM_ROOTS: TlsMaterial = {}

/** The material of a connection without files. */
export async function systemRoots(): Promise<TlsMaterial> {
  return SYSTEM_ROOTS
}
