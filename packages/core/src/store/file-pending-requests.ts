/** Pending requests that outlive the process: each a file beside the certificates. */
import { createPublicKey } from 'node:crypto'
import { join } from 'node:path'
import type { GeneratedKey } from '../contract/key-generator.ts'
import { type KeyVault, SealedKey } from '../contract/key-vault.ts'
import type { PendingRequest, PendingRequests } from '../contract/store.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { derToPem, pemToDer } from '../x509/pem.ts'
import type { DurableDirectory } from './durable-directory.ts'
import { PendingRequestsInMemory } from './pending-requests.ts'
import { decodeStored, encodeStored, locate, unusable, wiping, wishFact } from './stored-form.ts'

const REQUEST_LABEL = '-----BEGIN CERTIFICATE REQUEST-----'

/** Kept in memory, and on disk for the next process: a failing disk costs only the copy on it. */
export class FilePendingRequests implements PendingRequests {
  readonly #directory: DurableDirectory
  readonly #nameOf: (identity: SpiffeId) => string
  readonly #refused: (identity: SpiffeId, error: unknown) => void
  readonly #memory = new PendingRequestsInMemory()
  readonly #vault: KeyVault
  #isClosed = false

  /** `refused` is called with the reason why a request of the previous process cannot be continued. */
  constructor(
    directory: DurableDirectory,
    vault: KeyVault,
    nameOf: (identity: SpiffeId) => string,
    refused: (identity: SpiffeId, error: unknown) => void,
  ) {
    this.#directory = directory
    this.#nameOf = nameOf
    this.#refused = refused
    this.#vault = vault
  }

  async get(identity: SpiffeId): Promise<PendingRequest | undefined> {
    const present = await this.#memory.get(identity)
    const directory = this.#directory
    const name = this.#nameOf(identity)
    if (present || this.#isClosed || !directory.has(name)) return present
    try {
      const file = await directory.read(name)
      const path = join(directory.path, name)
      return file && wiping(file, () => locate(path, () => decodePending(file, identity, this.#vault)))
    } catch (error) {
      directory.remove(name, identity)
      this.#refused(identity, error)
      return undefined
    }
  }

  has(identity: SpiffeId): boolean {
    return this.#memory.has(identity) || this.#directory.has(this.#nameOf(identity))
  }

  async put(identity: SpiffeId, request: PendingRequest): Promise<void> {
    if (this.#isClosed) return
    const file = encodePending(identity, request)
    await this.#memory.put(identity, request)
    await this.#directory.write(this.#nameOf(identity), identity, file)
  }

  drop(identity: SpiffeId): void {
    if (this.#isClosed) return
    this.#memory.drop(identity)
    this.#directory.remove(this.#nameOf(identity), identity)
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    this.#memory[Symbol.dispose]()
  }
}

function encodePending(identity: SpiffeId, { note, wish, key }: PendingRequest): Buffer {
  const csr = Buffer.from(derToPem(key.csrDer, 'CERTIFICATE REQUEST'))
  return key.sealed.open(pem => encodeStored('pending', { identity, note, wish }, [pem, csr]))
}

function decodePending(file: Buffer, identity: SpiffeId, vault: KeyVault): PendingRequest {
  const { facts, pem } = decodeStored('pending', file)
  const { note } = facts
  if (facts['identity'] !== identity || typeof note !== 'string') throw unusable('is of another identity')
  const end = pem.indexOf(REQUEST_LABEL)
  const csrDer = pemToDer(pem.toString('latin1', end))
  const privateKeyPem = Uint8Array.from(pem.subarray(0, end))
  const publicKeyDer = publicKeyOf(privateKeyPem)
  return { note, wish: wishFact(facts), key: { sealed: new SealedKey(vault, privateKeyPem), csrDer, publicKeyDer } }
}

function publicKeyOf(privateKeyPem: Uint8Array): GeneratedKey['publicKeyDer'] {
  try {
    return createPublicKey(Buffer.from(privateKeyPem.buffer)).export({ type: 'spki', format: 'der' })
  } catch {
    // The cause could quote the key.
    throw unusable('holds a private key that cannot be read')
  }
}
