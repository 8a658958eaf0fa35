/** Requests that wait for somebody's approval: the key, the CSR and the plugin's note, from one try to the next. */

import type { GeneratedKey } from '../contract/key-generator.ts'
import { type KeyVault, SealedKey } from '../contract/key-vault.ts'
import type { PendingRequest, PendingRequests } from '../contract/store.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

export class PendingRequestsInMemory implements PendingRequests {
  readonly #vault: KeyVault
  readonly #requests = new Map<SpiffeId, SealedRequest>()
  #isClosed = false

  constructor(vault: KeyVault) {
    this.#vault = vault
  }

  async get(identity: SpiffeId): Promise<PendingRequest | undefined> {
    const request = this.#requests.get(identity)
    return request && openRequest(request)
  }

  has(identity: SpiffeId): boolean {
    return this.#requests.has(identity)
  }

  async put(identity: SpiffeId, request: PendingRequest): Promise<void> {
    if (this.#isClosed) return
    this.drop(identity)
    this.#requests.set(identity, sealRequest(this.#vault, request))
  }

  drop(identity: SpiffeId): void {
    this.#requests.get(identity)?.privateKey.wipe()
    this.#requests.delete(identity)
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    for (const identity of [...this.#requests.keys()]) this.drop(identity)
  }
}

/** As it is kept: it may wait for days. */
interface SealedRequest extends Pick<PendingRequest, 'note' | 'wish'>, Pick<GeneratedKey, 'csrDer' | 'publicKeyDer'> {
  readonly privateKey: SealedKey
}

function sealRequest(vault: KeyVault, { note, wish, key }: PendingRequest): SealedRequest {
  const { privateKeyPem, csrDer, publicKeyDer } = key
  return { note, wish, privateKey: new SealedKey(vault, Uint8Array.from(privateKeyPem)), csrDer, publicKeyDer }
}

function openRequest({ note, wish, privateKey, csrDer, publicKeyDer }: SealedRequest): PendingRequest {
  const privateKeyPem = new Uint8Array(privateKey.byteLength)
  privateKey.copyTo(privateKeyPem, 0)
  return { note, wish, key: { privateKeyPem, csrDer, publicKeyDer } }
}
