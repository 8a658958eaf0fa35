/** One token of one pod: requested when it is read, renewed while anything follows it, dropped at its end. */
import { apiRetryMs } from '@livery/ca-plugins/kubernetes-api'
import { after, CAError, type Clock, type Credential } from '@livery/core/plugin'

/** The requested lifetime. The API server may give a longer one; the token is renewed just as early. */
export const LIFE_SECONDS = 3_600
const RENEW_AT = 0.75
/** Longest duration of a call, and so the age of a new token; at most a part of a short life. */
const MARGIN_MS = 10_000
const MARGIN_SHARE = 0.1
/** Bounds the calls even if tokens have no lifetime. */
const LEAST_BETWEEN_MS = 3_000

/** Counts lifetimes, not dates: this machine's clock may be set, and differs from the API server's. */
export class HeldToken implements Disposable {
  readonly #clock: Clock
  readonly #request: (signal: AbortSignal) => Promise<Credential>
  readonly #ending = new AbortController()
  readonly #followers = new Set<() => void>()
  #held: { readonly token: string; readonly lifeMs: number; readonly since: number } | undefined
  #isDue = false
  #failures = 0
  /** The failure that stands until the next try. */
  #failure: CAError | undefined
  #flight: Promise<void> | undefined
  /** Timers: one for the renewal or the next try, one for the end of the token. */
  #next: Disposable | undefined
  #end: Disposable | undefined

  constructor(clock: Clock, request: (signal: AbortSignal) => Promise<Credential>) {
    this.#clock = clock
    this.#request = request
  }

  get isFollowed(): boolean {
    return this.#followers.size > 0
  }

  /** Calls `onChange` when a new read is useful, until the result is disposed. */
  follow(onChange: () => void): Disposable {
    const own = () => onChange()
    this.#followers.add(own)
    return { [Symbol.dispose]: () => void this.#followers.delete(own) }
  }

  /** A failed renewal rejects one read; later reads get the old token until the next try. */
  async read(): Promise<{ readonly token: string; readonly lifeMs: number }> {
    const isUsable = this.#held && (!this.#isDue || this.#failure)
    if (!isUsable) {
      if (this.#failure) throw this.#failure
      this.#flight ??= this.#ask()
      await this.#flight
    }
    if (!this.#held)
      throw new CAError('unavailable', 'Cannot get the token: it has ended. It is asked for again.', { local: true })
    const { token, lifeMs, since } = this.#held
    const left = lifeMs - (this.#clock.now() - since)
    return { token, lifeMs: Math.min(Math.max(left, 0), lifeMs) }
  }

  [Symbol.dispose](): void {
    this.#ending.abort(new CAError('unavailable', 'Cannot get the token: its pod has ended.', { local: true }))
    this.#next?.[Symbol.dispose]()
    this.#end?.[Symbol.dispose]()
    this.#followers.clear()
    this.#held = undefined
  }

  async #ask(): Promise<void> {
    const clock = this.#clock
    const { signal } = this.#ending
    try {
      const askedAt = clock.now()
      const { token, expiresAt = askedAt } = await this.#request(signal)
      signal.throwIfAborted()
      this.#hold(token, Math.min(expiresAt - askedAt, LIFE_SECONDS * 1_000))
    } catch (error) {
      if (!signal.aborted && error instanceof CAError) this.#onFailure(error)
      throw error
    } finally {
      this.#flight = undefined
    }
  }

  #hold(token: string, givenMs: number): void {
    const clock = this.#clock
    const lifeMs = givenMs - Math.min(MARGIN_MS, MARGIN_SHARE * givenMs)
    this.#held = { token, lifeMs, since: clock.now() }
    this.#isDue = false
    this.#failures = 0
    this.#end?.[Symbol.dispose]()
    this.#end = after(clock, lifeMs, () => {
      this.#held = undefined
    })
    this.#wait(Math.max(RENEW_AT * givenMs, LEAST_BETWEEN_MS), () => {
      this.#isDue = true
    })
  }

  #onFailure(failure: CAError): void {
    this.#failure = failure
    this.#wait(apiRetryMs(++this.#failures, failure), () => {
      this.#failure = undefined
    })
  }

  #wait(ms: number, then: () => void): void {
    this.#next?.[Symbol.dispose]()
    this.#next = after(this.#clock, ms, () => {
      then()
      for (const call of [...this.#followers]) call()
    })
  }
}
