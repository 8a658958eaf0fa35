/** Sends large answers one at a time: in slices, as fast as the client reads, until it leaves. */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as rest } from 'node:timers/promises'

/** Callers that wait while another is being answered; more are refused. */
const MAX_WAITING = 16
const CHUNK_CHARS = 16_384
/** Time per turn of the event loop; as long is then left to others. */
const SLICE_MS = 2

export class WorkLane {
  readonly #waiting: (() => void)[] = []
  #isBusy = false

  get isFull(): boolean {
    return this.#waiting.length >= MAX_WAITING
  }

  /** Runs `task` when its turn comes; rejects with the reason of `gone` if that is aborted first. */
  async run(task: () => Promise<void>, gone: AbortSignal): Promise<void> {
    if (this.#isBusy) await this.#turn(gone)
    this.#isBusy = true
    try {
      await task()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#isBusy = false
    }
  }

  #turn(gone: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const leave = (): void => {
      const place = this.#waiting.indexOf(resolve)
      if (place === -1) return
      this.#waiting.splice(place, 1)
      reject(gone.reason)
    }
    this.#waiting.push(resolve)
    gone.addEventListener('abort', leave, { once: true })
    return promise.finally(() => gone.removeEventListener('abort', leave))
  }
}

/** Writes the pieces to a response whose head is written. Rejects with the reason of `gone`: the client no longer reads. */
export async function writePieces(
  response: ServerResponse,
  pieces: Iterable<string>,
  gone: AbortSignal,
): Promise<void> {
  gone.throwIfAborted()
  let chunk = ''
  let sliceEnd = performance.now() + SLICE_MS
  for (const piece of pieces) {
    chunk += piece
    if (chunk.length >= CHUNK_CHARS) {
      const flows = response.write(chunk)
      chunk = ''
      if (!flows) await once(response, 'drain', { signal: gone })
    }
    if (performance.now() < sliceEnd) continue
    await rest(SLICE_MS, undefined, { signal: gone })
    sliceEnd = performance.now() + SLICE_MS
  }
  gone.throwIfAborted()
  response.end(chunk)
}
