/** One replica of the modelled CA: signs one request after the other, and refuses what does not fit into its queue. */

export interface ReplicaOptions {
  /** Signatures a second. */
  readonly rate: number
  /** Requests that may wait or be worked on; `Infinity`: no bound. */
  readonly queue: number
  /** A number in [0, 1): each signature takes between half and one and a half times the mean. */
  readonly random: () => number
}

export type Turn =
  | { readonly kind: 'signed'; readonly at: number }
  /** The queue is full. */
  | { readonly kind: 'refused' }

/** Requests are offered in the order of their arrival; times are milliseconds. */
export class Replica {
  readonly #options: ReplicaOptions
  readonly #serviceMs: number
  #busyUntil = Number.NEGATIVE_INFINITY

  constructor(options: ReplicaOptions) {
    this.#options = options
    this.#serviceMs = 1_000 / options.rate
  }

  /** The time of the signature for a request that arrives at `now`. */
  offer(now: number): Turn {
    const { queue, random } = this.#options
    if (this.waitMs(now) / this.#serviceMs >= queue) return { kind: 'refused' }
    this.#busyUntil = Math.max(this.#busyUntil, now) + this.#serviceMs * (0.5 + random())
    return { kind: 'signed', at: this.#busyUntil }
  }

  /** The work ahead of a request that arrives at `now`. */
  waitMs(now: number): number {
    return Math.max(0, this.#busyUntil - now)
  }

  /** Stops at `now`: waiting requests are lost. */
  stop(now: number): void {
    this.#busyUntil = Math.min(this.#busyUntil, now)
  }
}
