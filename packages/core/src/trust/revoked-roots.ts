/** The roots that the CA or an operator has revoked: they stay out although answers still bring them, also after a restart. */

import { MAX_ROOTS, MAX_ROOTS_LENGTH, type StoredRoot, type TrustAnchor } from '../contract/trust-anchor.ts'

/** The latest of them: at most 100. */
export class RevokedRoots {
  readonly #roots = new Map<string, TrustAnchor>()

  has(fingerprint: string): boolean {
    return this.#roots.has(fingerprint)
  }

  add(anchor: TrustAnchor): void {
    this.#roots.delete(anchor.fingerprint)
    this.#roots.set(anchor.fingerprint, anchor)
    const [oldest] = this.#roots.keys()
    if (this.#roots.size > MAX_ROOTS && oldest !== undefined) this.#roots.delete(oldest)
  }

  /** The CA's list or the operator has it again. */
  delete(fingerprint: string): void {
    this.#roots.delete(fingerprint)
  }

  /** The form in which they are stored beside `others`, as far as there is room. */
  stored(others: readonly StoredRoot[]): readonly StoredRoot[] {
    const known = new Set(others.map(({ pem }) => pem))
    let room = MAX_ROOTS_LENGTH - others.reduce((length, { pem }) => length + pem.length, 0)
    const latest = [...this.#roots.values()].reverse().filter(({ pem }) => !known.has(pem))
    return latest.slice(0, MAX_ROOTS - others.length).flatMap(({ pem, learnedAt, settlesAt }): StoredRoot[] => {
      room -= pem.length
      return room < 0 ? [] : [{ pem, learnedAt, settlesAt, standing: 'revoked', leavesUntil: 0 }]
    })
  }
}
