/** A limit that callers share so that none can exhaust it. */

/**
 * A caller may hold as much as remains free: alone at most half, and each further caller at most half of the rest.
 * A caller never loses what it holds (a dynamic threshold: https://doi.org/10.1109/90.664262).
 */
export class SharedLimit {
  #most: number
  #used = 0

  constructor(most: number) {
    this.#most = most
  }

  get used(): number {
    return this.#used
  }

  get most(): number {
    return this.#most
  }

  /** Never lowers it. */
  raise(most: number): void {
    this.#most = Math.max(this.#most, most)
  }

  /** Whether a caller that holds `held` of it may take `amount` more. */
  hasRoom(held: number, amount = 1): boolean {
    return held + amount <= this.#most - this.#used
  }

  take(amount = 1): void {
    this.#used += amount
  }

  giveBack(amount = 1): void {
    this.#used -= amount
  }
}
