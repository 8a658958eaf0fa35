/** Requests that wait for somebody's approval: the key, the CSR and the plugin's note, from one try to the next. */

import type { PendingRequest, PendingRequests } from '../contract/store.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

export class PendingRequestsInMemory implements PendingRequests {
  readonly #requests = new Map<SpiffeId, PendingRequest>()
  #isClosed = false

  async get(identity: SpiffeId): Promise<PendingRequest | undefined> {
    const request = this.#requests.get(identity)
    return request && copyOf(request)
  }

  has(identity: SpiffeId): boolean {
    return this.#requests.has(identity)
  }

  async put(identity: SpiffeId, request: PendingRequest): Promise<void> {
    if (this.#isClosed) return
    this.drop(identity)
    this.#requests.set(identity, copyOf(request))
  }

  drop(identity: SpiffeId): void {
    this.#requests.get(identity)?.key.sealed.wipe()
    this.#requests.delete(identity)
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    for (const identity of [...this.#requests.keys()]) this.drop(identity)
  }
}

function copyOf({ key, ...facts }: PendingRequest): PendingRequest {
  return { ...facts, key: { ...key, sealed: key.sealed.clone() } }
}
