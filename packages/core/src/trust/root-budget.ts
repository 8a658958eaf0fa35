/** Bounds the distinct roots of many bundles together. */
import type { Root } from '../contract/trust-anchor.ts'

/** The most different roots that count for single identities, over all of them. */
const MAX_ROOTS_OF_IDENTITIES = 2_000
/** Their length together, in characters of PEM. */
const MAX_LENGTH_OF_IDENTITIES = 16_777_216

/** A root that several bundles hold counts once: honest folders hold the same ones. */
export class RootBudget {
  readonly #holders = new Map<string, number>()
  #length = 0

  /** Counts another holder of a root; `false` if it is a new one and there is no room for it. */
  take({ fingerprint, pem }: Root): boolean {
    const holders = this.#holders.get(fingerprint) ?? 0
    if (holders === 0) {
      if (this.#holders.size >= MAX_ROOTS_OF_IDENTITIES || this.#length + pem.length > MAX_LENGTH_OF_IDENTITIES)
        return false
      this.#length += pem.length
    }
    this.#holders.set(fingerprint, holders + 1)
    return true
  }

  release({ fingerprint, pem }: Root): void {
    const holders = this.#holders.get(fingerprint) ?? 0
    if (holders > 1) this.#holders.set(fingerprint, holders - 1)
    else if (this.#holders.delete(fingerprint)) this.#length -= pem.length
  }
}
