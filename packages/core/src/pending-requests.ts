/** Requests that wait for somebody's approval: the key, the CSR and the plugin's note, from one try to the next. */
import type { GeneratedKey } from './key-generator.ts'
import { type KeyVault, SealedKey } from './key-vault.ts'
import type { SpiffeId } from './spiffe-id.ts'

/** What the next request of an identity goes on with. */
export interface PendingRequest {
  /** What the plugin kept to find its request again. */
  readonly note: string
  /** Whoever gets it owns its bytes. */
  readonly key: GeneratedKey
}

/** Where pending requests lie: in memory, or in a store that outlives the process. */
export interface PendingRequests extends Disposable {
  /** A copy of what was kept last. */
  get(identity: SpiffeId): Promise<PendingRequest | undefined>
  /** Whether something is kept, or was by the process before. */
  has(identity: SpiffeId): boolean
  /** Keeps a copy, in the place of what was there; resolves when it is safe. */
  keep(identity: SpiffeId, request: PendingRequest): Promise<void>
  /** Wipes what is kept. Never throws. */
  drop(identity: SpiffeId): void
  /** Wipes what is in memory. Nothing is kept or dropped from then on: what outlives the process stays. */
  [Symbol.dispose](): void
}

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

  async keep(identity: SpiffeId, request: PendingRequest): Promise<void> {
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
interface SealedRequest extends Pick<PendingRequest, 'note'>, Pick<GeneratedKey, 'csrDer' | 'publicKeyDer'> {
  readonly privateKey: SealedKey
}

function sealRequest(vault: KeyVault, { note, key }: PendingRequest): SealedRequest {
  const { privateKeyPem, csrDer, publicKeyDer } = key
  return { note, privateKey: new SealedKey(vault, Uint8Array.from(privateKeyPem)), csrDer, publicKeyDer }
}

function openRequest({ note, privateKey, csrDer, publicKeyDer }: SealedRequest): PendingRequest {
  const privateKeyPem = new Uint8Array(privateKey.byteLength)
  privateKey.copyTo(privateKeyPem, 0)
  return { note, key: { privateKeyPem, csrDer, publicKeyDer } }
}
