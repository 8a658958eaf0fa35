/** The certificate that one identity serves, and the one that waits to replace it: the old one stays until the new one can be used. */
import type { Clock } from '../time/clock.ts'
import { after } from '../time/deadline.ts'
import type { Issued } from './issued-certificate.ts'

interface Waiting {
  readonly issued: Issued
  readonly timer: Disposable
}

export type ServedChange = 'served' | 'expired'

/** Longer than a set clock stays unseen: until then the withdrawal has run, or the clock is where it was. */
const LOOK_AGAIN_MS = 10_000

/**
 * Holds at most one certificate in use, one that waits for its time, and a spare: one that ends after the one that replaced
 * it. Withdraws the one in use at notAfter.
 */
export class ServedCertificate {
  readonly #clock: Clock
  readonly #onChange: (change: ServedChange) => void
  #current: Issued | undefined
  #expiry: Disposable | undefined
  #waiting: Waiting | undefined
  #spare: Issued | undefined
  #mayReturn = true
  #hasExpired = false
  /** The next look at one that was not given to a caller, since it seemed to have ended. */
  #lookAgain: Disposable | undefined

  /** `onChange` is called after `current` changed, before the certificate that it replaced is wiped. */
  constructor(clock: Clock, onChange: (change: ServedChange) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  /**
   * `undefined` from notAfter on, also while its withdrawal is still to come: an event loop that was stopped or busy reads
   * its sockets before it runs timers.
   */
  get current(): Issued | undefined {
    if (!this.#current || this.#current.secret.notAfter > this.#clock.now()) return this.#current
    this.#lookAgain ??= after(this.#clock, LOOK_AGAIN_MS, () => this.#returnToService())
    return undefined
  }

  /** Whether the last one in use ended before another one took its place. */
  get hasExpired(): boolean {
    return this.#hasExpired || (this.#current !== undefined && this.current === undefined)
  }

  /** The one that waits for its time. */
  get waiting(): Issued | undefined {
    return this.#waiting?.issued
  }

  /** The one that is served again if the one in use ends without a successor. */
  get spare(): Issued | undefined {
    return this.#spare
  }

  /** The one that was offered last: it waits, or is in use. */
  get newest(): Issued | undefined {
    return this.#waiting?.issued ?? this.#current
  }

  /** Serves the one that waits from `from` on (milliseconds since the epoch). */
  hasten(from: number): void {
    const waiting = this.#waiting
    if (!waiting) return
    waiting.timer[Symbol.dispose]()
    this.#waiting = undefined
    this.offer(waiting.issued, from)
  }

  /** Serves `issued` from `from` on (milliseconds since the epoch), at once if that has passed. A newer offer wins. */
  offer(issued: Issued, from: number): void {
    this.#dropWaiting()
    if (from <= this.#clock.now()) {
      this.#serve(issued)
      return
    }
    const timer = this.#clock.at(from, () => {
      this.#waiting = undefined
      this.#serve(issued)
    })
    this.#waiting = { issued, timer }
  }

  /** The one that waits is not to be served. */
  discardWaiting(): void {
    this.#dropWaiting()
  }

  /** The one in use becomes no spare: peers refuse it. */
  forbidReturn(): void {
    this.#mayReturn = false
  }

  discardSpare(): void {
    this.#spare?.release()
    this.#spare = undefined
  }

  /** Wipes what is held, without a call of `onChange`. */
  clear(): void {
    this.#dropWaiting()
    this.discardSpare()
    this.#stopLooking()
    this.#expiry?.[Symbol.dispose]()
    const last = this.#current
    this.#current = undefined
    this.#hasExpired = false
    last?.release()
  }

  #serve(issued: Issued): void {
    const former = [this.#current, this.#spare].filter(each => each !== undefined)
    const [spare] = (this.#mayReturn ? former : former.slice(1))
      .filter(each => each.root.fingerprint === issued.root.fingerprint && endOf(each) > endOf(issued))
      .sort((a, b) => endOf(b) - endOf(a))
    this.#stopLooking()
    this.#expiry?.[Symbol.dispose]()
    this.#current = issued
    this.#spare = spare
    this.#mayReturn = true
    this.#hasExpired = false
    this.#expiry = this.#clock.at(endOf(issued), () => this.#expire())
    this.#onChange('served')
    for (const each of former) if (each !== spare) each.release()
  }

  /** The clock was set past notAfter and back: subscribers that came meanwhile have no secret, and nothing else would notify them. */
  #returnToService(): void {
    this.#lookAgain = undefined
    if (this.current) this.#onChange('served')
  }

  #stopLooking(): void {
    this.#lookAgain?.[Symbol.dispose]()
    this.#lookAgain = undefined
  }

  #expire(): void {
    const spare = this.#spare
    if (spare && endOf(spare) > this.#clock.now()) {
      this.#spare = undefined
      this.#serve(spare)
      return
    }
    this.discardSpare()
    const expired = this.#current
    this.#stopLooking()
    this.#current = undefined
    this.#hasExpired = true
    this.#onChange('expired')
    expired?.release()
  }

  #dropWaiting(): void {
    this.#waiting?.timer[Symbol.dispose]()
    this.#waiting?.issued.release()
    this.#waiting = undefined
  }
}

function endOf({ secret }: Issued): number {
  return secret.notAfter
}
