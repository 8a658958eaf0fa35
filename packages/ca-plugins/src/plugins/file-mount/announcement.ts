/** Whether a version of something is worth a notification: once, and again if nobody has fetched it. */

/** A listener that was notified while it was busy does not fetch. */
const AGAIN_MS = 10_000

export class Announcement {
  #given: string | undefined
  #notified: { readonly version: string; readonly at: number } | undefined

  /** Whether anything was ever given out. */
  get isKnown(): boolean {
    return this.#given !== undefined
  }

  /** The version was given out. */
  gave(version: string): void {
    this.#given = version
  }

  /** Whether to notify of `version` now; if so, it counts as notified. */
  notifies(version: string, now: number): boolean {
    if (version === this.#given) return false
    if (version === this.#notified?.version && now < this.#notified.at + AGAIN_MS) return false
    this.#notified = { version, at: now }
    return true
  }

  /** Whether `version` is what was given out last. */
  isGiven(version: string): boolean {
    return version === this.#given
  }
}
