/** Private keys at rest: one copy of each, sealed by a vault, and wiped when its owner lets go of it. */
import { inspect } from 'node:util'

/** Makes private keys unreadable while nobody uses them. */
export interface KeyVault {
  /** Bytes by which a sealed key is longer than the key. */
  readonly overhead: number
  /** Writes the sealed form of `key` to `sealed`, which is `overhead` bytes longer than the key. */
  seal(key: Uint8Array, sealed: Uint8Array): void
  /** Writes the key to `target` from `offset` on. Throws if `sealed` is not what this vault has sealed. */
  unseal(sealed: Uint8Array, target: Uint8Array, offset: number): void
  /**
   * SubjectPublicKeyInfo (DER) of a private key (PEM), read without leaving a copy in memory; `undefined` if that is
   * impossible, or the kind of key is unknown.
   */
  publicKeyOf?(key: Uint8Array): Uint8Array | undefined
}

/** The vault without encryption: holds one plain copy of the key. */
export const plainKeyVault: KeyVault = {
  overhead: 0,
  seal: (key, sealed) => sealed.set(key),
  unseal: (sealed, target, offset) => target.set(sealed, offset),
}

/** One private key (PEM). Prints, serialises and clones without the key. */
export class SealedKey {
  readonly #vault: KeyVault
  #sealed: Uint8Array | undefined
  /** The length of the PEM. */
  readonly byteLength: number

  /** Seals `key` (PEM), and wipes the caller's bytes. */
  constructor(vault: KeyVault, key: Uint8Array) {
    this.#vault = vault
    this.byteLength = key.length
    this.#sealed = new Uint8Array(key.length + vault.overhead)
    try {
      vault.seal(key, this.#sealed)
    } finally {
      key.fill(0)
    }
  }

  get isWiped(): boolean {
    return this.#sealed === undefined
  }

  /** Writes the key to `target` from `offset` on. Its caller wipes it there. Throws once the key was wiped. */
  copyTo(target: Uint8Array, offset: number): void {
    if (!this.#sealed) throw new Error('Cannot use a private key: it was wiped')
    this.#vault.unseal(this.#sealed, target, offset)
  }

  /** Calls `use` with the key (PEM), which is wiped when that returns. Throws once the key was wiped. */
  open<T>(use: (key: Uint8Array) => T): T {
    const key = new Uint8Array(this.byteLength)
    try {
      this.copyTo(key, 0)
      return use(key)
    } finally {
      key.fill(0)
    }
  }

  /** The same key with a separate owner. Throws once the key was wiped. */
  clone(): SealedKey {
    return this.open(key => new SealedKey(this.#vault, key))
  }

  /** Only the owner calls it, once nobody can use the key. */
  wipe(): void {
    this.#sealed?.fill(0)
    this.#sealed = undefined
  }

  toJSON(): string {
    return '[private key]'
  }

  [inspect.custom](): string {
    return 'SealedKey [private key]'
  }
}
