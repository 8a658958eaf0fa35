/** Identities whose certificate is looked for in the store, a few at a time, before the CA is asked. */

import { setImmediate } from 'node:timers/promises'
import type { ManagedIdentity, RestoreUrgency } from '../identity/managed-identity.ts'
import { FetchQueue } from './fetch-queue.ts'
import { type RestorationOptions, type Restored, restore } from './restoration.ts'

/** So many are read from the store at once: libuv has four threads. */
const MAX_RESTORING = 8

/** Reads by urgency, each identity once. */
export class RestoreQueue {
  readonly #options: RestorationOptions
  readonly #onRestored: (managed: ManagedIdentity, restored: Restored | undefined) => void
  readonly #queue: FetchQueue<ManagedIdentity>
  readonly #reading = new Set<Promise<void>>()

  /** Calls `onRestored` with what was found, also for an identity that was stopped meanwhile. */
  constructor(
    options: RestorationOptions,
    onRestored: (managed: ManagedIdentity, restored: Restored | undefined) => void,
  ) {
    this.#options = options
    this.#onRestored = onRestored
    this.#queue = new FetchQueue(
      () => MAX_RESTORING,
      managed => this.#read(managed),
    )
  }

  /** `false` if the store has nothing for it. */
  start(managed: ManagedIdentity, urgency: RestoreUrgency): boolean {
    if (!this.#options.store.take(managed.identity)) return false
    managed.startRestoring(urgency)
    this.#queue.push(managed, urgency)
    return true
  }

  /** Somebody waits for it. */
  hurry(managed: ManagedIdentity): void {
    if (managed.hurryRestoring()) this.#queue.push(managed, 'on-demand')
  }

  delete(managed: ManagedIdentity): void {
    this.#queue.delete(managed)
  }

  /** Resolves when nothing is being read, and nothing waits to be. */
  async settled(): Promise<void> {
    while (this.#queue.waiting + this.#queue.running > 0) {
      await Promise.all(this.#reading)
      // The queue starts the next ones once these have ended.
      await setImmediate()
    }
  }

  async #read(managed: ManagedIdentity): Promise<void> {
    const reading = restore(this.#options, managed.identity).then(restored => this.#onRestored(managed, restored))
    this.#reading.add(reading)
    await reading
    this.#reading.delete(reading)
  }
}
