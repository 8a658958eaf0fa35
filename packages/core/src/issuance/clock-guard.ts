/** The order of work after a sleep, a stop or a clock that was set: the CA's roots first, then leaves by what is left of them. */
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Clock, ClockJump } from '../time/clock.ts'
import { sleep } from '../time/deadline.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import type { FetchSchedule } from './fetch-schedule.ts'

/** Leaves do not wait longer for the CA's list: it may be away, and their certificates have ended. */
const ROOTS_WITHIN_MS = 2_000

export interface ClockGuardOptions {
  readonly clock: Clock
  readonly trust: Pick<TrustStore, 'refreshAgain'>
  readonly schedule: Pick<FetchSchedule, 'hold' | 'release'>
  readonly report: (event: SecretEvent) => void
}

/** Credentials come before both on their own: they are read for each call, and a cached one is judged by the new time. */
export class ClockGuard implements Disposable {
  readonly #options: ClockGuardOptions
  readonly #closed = new AbortController()
  readonly #jumps: Disposable | undefined
  #jumpsSeen = 0

  constructor(options: ClockGuardOptions) {
    this.#options = options
    this.#jumps = options.clock.onJump?.(jump => void this.#onJump(jump))
  }

  [Symbol.dispose](): void {
    this.#jumps?.[Symbol.dispose]()
    this.#closed.abort(new Error('the manager is closed'))
  }

  /** Never rejects. */
  async #onJump({ kind, ms }: ClockJump): Promise<void> {
    const { clock, trust, schedule, report } = this.#options
    const jump = ++this.#jumpsSeen
    report({ kind: 'clock-jumped', how: kind, ms })
    schedule.hold()
    await Promise.race([trust.refreshAgain(), sleep(clock, ROOTS_WITHIN_MS, this.#closed.signal).catch(() => {})])
    if (jump === this.#jumpsSeen && !this.#closed.signal.aborted) schedule.release()
  }
}
