/** The key of one request, and its CSR: made when the plugin asks for the CSR, unless the previous attempt or the answer has one. */

import { CAError, type CertificateSigningRequest, type IssuedCertificate } from '../contract/ca-client.ts'
import type { GeneratedKey } from '../contract/key-generator.ts'
import { type KeyVault, SealedKey } from '../contract/key-vault.ts'
import { derToPem } from '../x509/pem.ts'

/** A key, and the public key to compare the certificate's with. */
export interface PrivateKey {
  readonly sealed: SealedKey
  /** Absent for a key that a source brought. */
  readonly publicKeyDer?: Uint8Array
}

/** A key that was generated, sealed as soon as it came. */
export interface HeldKey extends Pick<GeneratedKey, 'csrDer' | 'publicKeyDer'> {
  readonly sealed: SealedKey
}

/** The key and CSR of one request: made when a plugin first asks for the CSR, or taken from the previous attempt. */
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
