/** Reports to a key generator with a pool how many keys the next minutes need, so that it has them ready. */

import type { KeyGenerator, KeyType } from '../contract/key-generator.ts'
import type { Clock } from '../time/clock.ts'

/** How far it looks ahead. */
const HORIZON_MS = 5 * 60_000
const COUNT_EVERY_MS = 30_000
/** A burst is counted once, when most of it is there. */
const COUNT_SOON_MS = 1_000

export interface KeyDemandOptions {
  readonly clock: Clock
  readonly keyGenerator: KeyGenerator
  readonly keyType: KeyType
  /** How many keys are wanted now or become due until `time`, milliseconds since the epoch. */
  readonly countUntil: (time: number) => number
}

/** Does nothing for a generator without a pool. */
export class KeyDemand implements Disposable {
  readonly #options: KeyDemandOptions
  #next: { readonly at: number; readonly timer: Disposable } | undefined

  constructor(options: KeyDemandOptions) {
    this.#options = options
    this.#countWithin(COUNT_EVERY_MS)
  }

  /** More has become due than was to be foreseen. */
  rose(): void {
    this.#countWithin(COUNT_SOON_MS)
  }

  /** Nothing more is wanted. */
  [Symbol.dispose](): void {
    this.#next?.timer[Symbol.dispose]()
    this.#options.keyGenerator.prepare?.(this.#options.keyType, 0)
  }

  #countWithin(ms: number): void {
    const { clock, keyGenerator } = this.#options
    if (!keyGenerator.prepare) return
    const at = clock.now() + ms
    if (this.#next && this.#next.at <= at) return
    this.#next?.timer[Symbol.dispose]()
    this.#next = { at, timer: clock.at(at, () => this.#count()) }
  }

  #count(): void {
    const { clock, keyGenerator, keyType, countUntil } = this.#options
    this.#next = undefined
    keyGenerator.prepare?.(keyType, countUntil(clock.now() + HORIZON_MS))
    this.#countWithin(COUNT_EVERY_MS)
  }
}
