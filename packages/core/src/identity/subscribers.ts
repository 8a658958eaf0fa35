/** The listeners of each identity, whether it is held or not. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { SecretItem } from './secret-item.ts'

export type Listener = (item: SecretItem | undefined) => void

export class Subscribers {
  readonly #listeners = new Map<SpiffeId, Set<Listener>>()

  /** Whether anybody is subscribed to this very identity. */
  has(identity: SpiffeId): boolean {
    return this.#listeners.has(identity)
  }

  /** `onLast` is called when the last listener of the identity has left. */
  add(identity: SpiffeId, listener: Listener, onLast: () => void): Disposable {
    const listeners = this.#listeners.get(identity) ?? new Set()
    this.#listeners.set(identity, listeners.add(listener))
    return {
      [Symbol.dispose]: () => {
        if (!listeners.delete(listener) || listeners.size > 0) return
        this.#listeners.delete(identity)
        onLast()
      },
    }
  }

  notify(identity: SpiffeId, item: SecretItem | undefined): void {
    for (const listener of this.#listeners.get(identity) ?? []) listener(item)
  }
}
