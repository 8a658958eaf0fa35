/** The key and the CSR of one request, and the note that a plugin keeps with them while it waits for an approval. */

import {
  CAError,
  type CertificateSigningRequest,
  type IssuedCertificate,
  type RequestTicket,
} from '../contract/ca-client.ts'
import { wishText } from '../contract/certificate-wish.ts'
import type { GeneratedKey } from '../contract/key-generator.ts'
import { type KeyVault, SealedKey } from '../contract/key-vault.ts'
import type { PendingRequest, PendingRequests } from '../contract/store.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Request } from '../state/identity.ts'
import { derToPem } from '../x509/pem.ts'

/** A key, and the public key to compare the certificate's with. */
export interface PrivateKey {
  readonly sealed: SealedKey
  /** Absent for a key that a source brought. */
  readonly publicKeyDer?: Uint8Array
}

/** A key that was generated, sealed as soon as it came. */
interface HeldKey extends Pick<GeneratedKey, 'csrDer' | 'publicKeyDer'> {
  readonly sealed: SealedKey
}

/** Made when a plugin first asks for the CSR, unless the previous attempt or the answer has one. */
export class RequestKey {
  readonly #vault: KeyVault
  readonly #make: () => Promise<HeldKey>
  #pending: Promise<HeldKey> | undefined
  #brought: SealedKey | undefined

  constructor(vault: KeyVault, generate: () => Promise<GeneratedKey>, present: GeneratedKey | undefined) {
    this.#vault = vault
    this.#make = async () => this.#hold(await generate())
    if (present) this.#pending = Promise.resolve(this.#hold(present))
  }

  generated(): Promise<HeldKey> {
    this.#pending ??= this.#make()
    return this.#pending
  }

  async csr(): Promise<CertificateSigningRequest> {
    const { csrDer } = await this.generated()
    return { der: csrDer, pem: derToPem(csrDer, 'CERTIFICATE REQUEST') }
  }

  /** The answer's own key, or the one that was generated for it. */
  async privateKey({ privateKey }: IssuedCertificate): Promise<PrivateKey> {
    if (privateKey) {
      this.#brought = new SealedKey(this.#vault, privateKey)
      this.#wipeGenerated()
      return { sealed: this.#brought }
    }
    const generated = await this.#pending
    if (!generated)
      throw new CAError('bad-response', 'The CA plugin answered without a key and without asking for the CSR')
    return generated
  }

  /** Wipes the key, also one that is still being made. */
  wipe(): void {
    this.#brought?.wipe()
    this.#wipeGenerated()
  }

  #wipeGenerated(): void {
    this.#pending?.then(
      ({ sealed }) => sealed.wipe(),
      () => {}, // the caller of csr() has the error
    )
  }

  #hold({ privateKeyPem, csrDer, publicKeyDer }: GeneratedKey): HeldKey {
    return { sealed: new SealedKey(this.#vault, privateKeyPem), csrDer, publicKeyDer }
  }
}

/** Stores nothing once the request has ended or is given up. */
export class Ticket implements RequestTicket, Disposable {
  stored: string | undefined
  readonly #pending: PendingRequests
  readonly #request: Request
  readonly #signal: AbortSignal
  readonly #key: RequestKey
  #hasEnded = false

  /** `stored`: the note of the previous attempt. */
  constructor(
    pending: PendingRequests,
    request: Request,
    signal: AbortSignal,
    key: RequestKey,
    stored: string | undefined,
  ) {
    this.#pending = pending
    this.#request = request
    this.#signal = signal
    this.#key = key
    this.stored = stored
  }

  async store(note: string | undefined): Promise<void> {
    if (this.#isOver()) return
    const key = note === undefined ? undefined : await this.#key.generated()
    if (this.#isOver()) return
    const { of, wish } = this.#request
    this.stored = note
    if (note === undefined || key === undefined) this.#pending.drop(of.id)
    else await putPending(this.#pending, of.id, { note, wish: wishText(wish) }, key)
  }

  #isOver(): boolean {
    return this.#hasEnded || this.#signal.aborted
  }

  [Symbol.dispose](): void {
    this.#hasEnded = true
  }
}

/** The key is open only while it is kept. */
async function putPending(
  pending: PendingRequests,
  id: SpiffeId,
  facts: Pick<PendingRequest, 'note' | 'wish'>,
  { sealed, csrDer, publicKeyDer }: HeldKey,
): Promise<void> {
  const privateKeyPem = new Uint8Array(sealed.byteLength)
  try {
    sealed.copyTo(privateKeyPem, 0)
    await pending.put(id, { ...facts, key: { privateKeyPem, csrDer, publicKeyDer } })
  } finally {
    privateKeyPem.fill(0)
  }
}
