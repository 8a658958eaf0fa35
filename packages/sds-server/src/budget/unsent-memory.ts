/**
 * Memory that HTTP/2 may still send from. When the peer's window splits a write, Node keeps a reference for the last part
 * only: once its stream is destroyed, the other parts point at memory that could get another caller's key.
 */
import type { Socket } from 'node:net'
import type { CallerBudget } from './caller-budget.ts'

interface Kept {
  readonly memory: ArrayBufferLike
  readonly charged: number
}

/** The unsent memory of one connection. */
export class UnsentMemory {
  readonly #socket: Socket
  readonly #budget: Pick<CallerBudget, 'charge' | 'release'>
  /** One for each write: a frame that many streams share is kept by each. */
  #kept: Set<Kept> | undefined

  constructor(socket: Socket, budget: Pick<CallerBudget, 'charge' | 'release'>) {
    this.#socket = socket
    this.#budget = budget
  }

  /**
   * Keeps the memory of `bytes`, charged to the caller, until the returned function is called or the socket is closed. Closes
   * the socket of a caller that has no room for it.
   */
  keep({ buffer: memory }: Buffer): () => void {
    if (this.#socket.closed) return () => {}
    const hasRoom = this.#budget.charge(memory.byteLength)
    const kept = { memory, charged: hasRoom ? memory.byteLength : 0 }
    this.#kept ??= this.#untilClosed()
    this.#kept.add(kept)
    if (!hasRoom) this.#socket.destroy()
    return () => this.#free(kept)
  }

  #untilClosed(): Set<Kept> {
    const all = new Set<Kept>()
    this.#socket.once('close', () => {
      for (const kept of all) this.#free(kept)
    })
    return all
  }

  #free(kept: Kept): void {
    if (this.#kept?.delete(kept)) this.#budget.release(kept.charged)
  }
}
