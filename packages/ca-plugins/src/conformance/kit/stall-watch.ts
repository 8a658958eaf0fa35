/** Ends a run that a blocked event loop would never end: a thread that sees no sign of life names the case and ends the process. */
import { url as inspectorUrl } from 'node:inspector'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'

/** The thread's `workerData`. */
export interface StallWatchData {
  /** Shared. At `BEAT` a count that grows while the event loop turns, at `IS_ON` 1 while a case runs. */
  readonly state: Int32Array
}

/** Sent to the thread before each case. */
export interface WatchedCase {
  readonly name: string
  readonly patienceMs: number
}

export const BEAT = 0
export const IS_ON = 1
const BEAT_MS = 100

let watch: StallWatch | undefined

/**
 * Runs `use`. If the event loop does not turn for `patienceMs` meanwhile, the process prints which case it was and is
 * killed: nothing gentler stops a thread that waits in the kernel. Under a debugger nothing is watched.
 */
export async function endIfStalled(current: WatchedCase, use: () => Promise<void>): Promise<void> {
  if (inspectorUrl() !== undefined) return use()
  watch ??= new StallWatch()
  using _on = watch.start(current)
  await use()
}

class StallWatch {
  readonly #state = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT))
  readonly #thread: Worker

  constructor() {
    const workerData: StallWatchData = { state: this.#state }
    // The name of this file says whether it runs from source or from dist.
    this.#thread = new Worker(new URL(`./stall-thread${extname(import.meta.url)}`, import.meta.url), { workerData })
    this.#thread.unref()
  }

  start(current: WatchedCase): Disposable {
    this.#thread.postMessage(current)
    Atomics.store(this.#state, IS_ON, 1)
    this.#beat()
    const timer = setInterval(() => this.#beat(), BEAT_MS).unref()
    return {
      [Symbol.dispose]: () => {
        clearInterval(timer)
        Atomics.store(this.#state, IS_ON, 0)
        this.#beat()
      },
    }
  }

  #beat(): void {
    Atomics.add(this.#state, BEAT, 1)
    Atomics.notify(this.#state, BEAT)
  }
}
