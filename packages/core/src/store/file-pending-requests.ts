/** Pending requests that outlive the process: each a file beside the certificates. */
import { createPublicKey } from 'node:crypto'
import { join } from 'node:path'
import type { GeneratedKey } from '../contract/key-generator.ts'
import type { KeyVault } from '../contract/key-vault.ts'
import type { PendingRequest, PendingRequests } from '../contract/store.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { derToPem, pemToDer } from '../x509/pem.ts'
import type { DurableDirectory } from './durable-directory.ts'
import { PendingRequestsInMemory } from './pending-requests.ts'
import { decodeStored, encodeStored, locate, unusable, wiping, wishFact } from './stored-form.ts'

const REQUEST_LABEL = '-----BEGIN CERTIFICATE REQUEST-----'

export interface FilePendingRequestsOptions {
  readonly directory: DurableDirectory
  readonly vault: KeyVault
  readonly nameOf: (identity: SpiffeId) => string
  /** Called with the reason why a request of the previous process cannot be continued. */
  readonly onUnusable: (identity: SpiffeId, error: unknown) => void
}

/** In memory, and on disk for the next process: a disk that fails costs no more than that. */
export class FilePendingRequests implements PendingRequests {
  readonly #options: FilePendingRequestsOptions
  readonly #memory: PendingRequestsInMemory
  #isClosed = false

  constructor(options: FilePendingRequestsOptions) {
    this.#options = options
    this.#memory = new PendingRequestsInMemory(options.vault)
  }

  async get(identity: SpiffeId): Promise<PendingRequest | undefined> {
    const present = await this.#memory.get(identity)
    const { directory, nameOf, onUnusable } = this.#options
    const name = nameOf(identity)
    if (present || this.#isClosed || !directory.has(name)) return present
    try {
      const file = await directory.read(name)
      const path = join(directory.path, name)
      return file && wiping(file, () => locate(path, () => decodePending(file, identity)))
    } catch (error) {
      directory.remove(name, identity)
      onUnusable(identity, error)
      return undefined
    }
  }

  has(identity: SpiffeId): boolean {
    return this.#memory.has(identity) || this.#options.directory.has(this.#options.nameOf(identity))
  }

  async put(identity: SpiffeId, request: PendingRequest): Promise<void> {
    if (this.#isClosed) return
    const { directory, nameOf } = this.#options
    await this.#memory.put(identity, request)
    await directory.write(nameOf(identity), identity, encodePending(identity, request))
  }

  drop(identity: SpiffeId): void {
    if (this.#isClosed) return
    this.#memory.drop(identity)
    this.#options.directory.remove(this.#options.nameOf(identity), identity)
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    this.#memory[Symbol.dispose]()
  }
}

function encodePending(identity: SpiffeId, { note, wish, key }: PendingRequest): Buffer {
  const csr = Buffer.from(derToPem(key.csrDer, 'CERTIFICATE REQUEST'))
  return encodeStored('pending', { identity, note, wish }, [key.privateKeyPem, csr])
}

function decodePending(file: Buffer, identity: SpiffeId): PendingRequest {
  const { facts, pem } = decodeStored('pending', file)
  const { note } = facts
  if (facts['identity'] !== identity || typeof note !== 'string') throw unusable('is of another identity')
  const end = pem.indexOf(REQUEST_LABEL)
  const csrDer = pemToDer(pem.toString('latin1', end))
  const privateKeyPem = Uint8Array.from(pem.subarray(0, end))
  return { note, wish: wishFact(facts), key: { privateKeyPem, csrDer, publicKeyDer: publicKeyOf(privateKeyPem) } }
}

function publicKeyOf(privateKeyPem: Uint8Array): GeneratedKey['publicKeyDer'] {
  try {
    return createPublicKey(Buffer.from(privateKeyPem.buffer)).export({ type: 'spki', format: 'der' })
  } catch {
    // The cause could quote the key.
    throw unusable('holds a private key that cannot be read')
  }
}
