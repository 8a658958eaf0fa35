/** Whether a version of something is worth telling: once, and again if nobody has come for it. */

/** Who was told while it was busy does not come. */
const AGAIN_MS = 10_000

export class Announcement {
  #given: string | undefined
  #told: { readonly version: string; readonly at: number } | undefined

  /** Whether anything was ever given out. */
  get isKnown(): boolean {
    return this.#given !== undefined
  }

  /** The version was given out. */
  gave(version: string): void {
    this.#given = version
  }

  /** Whether to tell of `version` now; if so, it counts as told. */
  tells(version: string, now: number): boolean {
    if (version === this.#given) return false
    if (version === this.#told?.version && now < this.#told.at + AGAIN_MS) return false
    this.#told = { version, at: now }
    return true
  }

  /** Whether `version` is what was given out last. */
  isGiven(version: string): boolean {
    return version === this.#given
  }
}
