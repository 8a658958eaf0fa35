/** A certificate with its private key, as SDS serves it. */
import { hash } from 'node:crypto'
import { inspect } from 'node:util'
import type { SealedKey } from '../contract/key-vault.ts'

/** A certificate, mostly an X509-SVID, with its private key. Prints, serialises and clones without the key. */
export class CertificateSecret {
  readonly kind = 'certificate'
  /** The name that it is listed under: the SPIFFE ID of its identity, or the name of its files. */
  readonly name: string
  /** SHA-256 (hex) of the chain's DER, never of the key. */
  readonly version: string
  readonly notBefore: number
  readonly notAfter: number
  /** Lower-case hex, as Envoy's `/certs` prints it. */
  readonly serialNumber: string
  /** The purpose of the identity, if its CA names one: for clients of the Workload API. */
  readonly hint: string | undefined
  readonly #privateKey: SealedKey
  /** PEM as text: a byte array would take two more objects and an allocation. */
  readonly #leaf: string
  readonly #intermediates: Intermediates

  /** `certificateChain` is PEM, leaf first, without the root. `privateKey` is taken over. */
  constructor(
    fields: Pick<CertificateSecret, 'name' | 'version' | 'privateKey' | 'notBefore' | 'notAfter' | 'serialNumber'> &
      Partial<Pick<CertificateSecret, 'hint'>> & { readonly certificateChain: string },
  ) {
    this.name = fields.name
    this.version = fields.version
    this.notBefore = fields.notBefore
    this.notAfter = fields.notAfter
    this.serialNumber = fields.serialNumber
    this.hint = fields.hint
    const { certificateChain } = fields
    const leafEnd = endOfFirst(certificateChain)
    this.#privateKey = fields.privateKey
    // A copy through bytes: a substring would keep the whole string in memory.
    this.#leaf = Buffer.from(certificateChain.slice(0, leafEnd), 'latin1').toString('latin1')
    this.#intermediates = intermediatesOf(certificateChain.slice(leafEnd))
  }

  /** PEM, leaf first, without the root; a copy for the caller. */
  get certificateChain(): Buffer {
    return Buffer.concat([Buffer.from(this.#leaf, 'latin1'), this.#intermediates.pem])
  }

  /** SHA-256 (hex) of the PEM of its intermediates; an empty text without one. */
  get intermediatesDigest(): string {
    return this.#intermediates.digest
  }

  /** Copied only into a response while that is written. */
  get privateKey(): SealedKey {
    return this.#privateKey
  }

  /** Overwrites the key: its owner calls it once no stream can get this item. */
  wipe(): void {
    this.#privateKey.wipe()
  }

  toJSON(): string {
    return '[secret]'
  }

  [inspect.custom](): string {
    return `CertificateSecret(${this.name}, serial ${this.serialNumber}) [secret]`
  }
}

const ASCII = new TextEncoder()
const END_OF_CERTIFICATE = '-----END CERTIFICATE-----\n'

function endOfFirst(chain: string): number {
  const end = chain.indexOf(END_OF_CERTIFICATE)
  return end === -1 ? chain.length : end + END_OF_CERTIFICATE.length
}

const MAX_INTERMEDIATES = 16
const intermediates = new Map<string, Intermediates>()

interface Intermediates {
  readonly pem: Uint8Array
  readonly digest: string
}

/** Thousands of leaves share a few intermediates, each as large as a leaf: they are kept once. */
function intermediatesOf(pem: string): Intermediates {
  const known = intermediates.get(pem)
  if (known) return known
  const read = { pem: ASCII.encode(pem), digest: pem === '' ? '' : hash('sha256', pem) }
  const [oldest] = intermediates.keys()
  if (oldest !== undefined && intermediates.size >= MAX_INTERMEDIATES) intermediates.delete(oldest)
  intermediates.set(pem, read)
  return read
}
