/** Decides whether to notify of a version: once, and again if nobody has fetched it. */

/** A listener that is busy during a notification does not fetch. */
const AGAIN_MS = 10_000

export class ChangeNotice {
  #returned: string | undefined
  #notified: { readonly version: string; readonly at: number } | undefined

  /** Whether anything was ever returned. */
  get isKnown(): boolean {
    return this.#returned !== undefined
  }

  /** Records that the caller got `version`. */
  returned(version: string): void {
    this.#returned = version
  }

  /** Whether to notify of `version` now; if so, it counts as notified. */
  isDue(version: string, now: number): boolean {
    if (version === this.#returned) return false
    if (version === this.#notified?.version && now < this.#notified.at + AGAIN_MS) return false
    this.#notified = { version, at: now }
    return true
  }

  /** Whether `version` was returned last. */
  isCurrent(version: string): boolean {
    return version === this.#returned
  }
}
