/** The lifetime that each identity's certificate is asked for: halved where the CA refuses it as too long, and remembered. */
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

/** Seconds. CAs give no less; below it a node would only renew. */
const FLOOR_SECONDS = 300

export class TtlWishes {
  readonly #wished: (identity: SpiffeId) => number
  readonly #lowered = new Map<SpiffeId, number>()
  /** The last lowered lifetime that the CA accepted: the next refused identity tries it first. */
  #accepted: number | undefined

  /** `wished`: as it is configured, seconds. */
  constructor(wished: (identity: SpiffeId) => number) {
    this.#wished = wished
  }

  /** Seconds. */
  of(identity: SpiffeId): number {
    return this.#lowered.get(identity) ?? this.#wished(identity)
  }

  /** The CA refused the lifetime. Returns the one to ask for next; `undefined` where there is none above the floor. */
  lower(identity: SpiffeId): number | undefined {
    const asked = this.of(identity)
    const half = Math.max(Math.floor(asked / 2), FLOOR_SECONDS)
    const next = this.#accepted !== undefined && this.#accepted < asked ? this.#accepted : half
    if (next >= asked) return undefined
    this.#lowered.set(identity, next)
    return next
  }

  accepted(identity: SpiffeId): void {
    this.#accepted = this.#lowered.get(identity) ?? this.#accepted
  }

  forget(identity: SpiffeId): void {
    this.#lowered.delete(identity)
  }
}
