/** Caches tokens that cost a request while they are valid, with one request in flight per token. */
import {
  type Clock,
  type Credential,
  type CredentialSource,
  type PluginLog,
  rememberToken,
  untilAborted,
} from '@livery/core/plugin'
import { reasonOf } from '../answers/reason-of.ts'

/** The cache key for a token of `source`: equal for requests that get the same token. */
export function tokenKey(
  { isPerIdentity }: Pick<CredentialSource, 'isPerIdentity'>,
  {
    identity = '',
    tokenFile = '',
  }: { readonly identity?: string | undefined; readonly tokenFile?: string | undefined },
): string {
  return isPerIdentity && tokenFile === '' ? identity : tokenFile
}

/** Resolves with a new token; rejects with a `CAError`, or the reason of `signal`. */
type FetchToken = (signal: AbortSignal) => Promise<Credential>

interface Refresh {
  /** A token with less left than this is fetched again; a function if it depends on the lifetime. */
  readonly beforeMs: number | ((lifetimeMs: number) => number)
  /** The least time between two fetches while the token is still valid: a source may have no newer one. */
  readonly intervalMs: number
}

interface Held {
  readonly credential: Credential
  /** A time in the future means that the clock was set back, and that the expiry means nothing. */
  readonly heldAt: number
  readonly expiresAt: number
  /** The earliest time to fetch a newer token. */
  readonly refreshAt: number
}

interface Flight {
  readonly result: Promise<Credential>
  readonly abort: AbortController
  waiting: number
}

/** A token with less left might expire on its way to the CA. */
const MARGIN_MS = 10_000

/** Does not hold a token without an expiry. Has no timer: a call notices a stale token. */
export class TokenCache {
  readonly #clock: Clock
  readonly #log: Pick<PluginLog, 'warn'>
  readonly #refresh: Refresh
  readonly #held = new Map<string, Held>()
  readonly #flights = new Map<string, Flight>()

  constructor(clock: Clock, log: Pick<PluginLog, 'warn'>, refresh: Refresh) {
    this.#clock = clock
    this.#log = log
    this.#refresh = refresh
  }

  /** The token for `key`; a failed `fetch` is only a warning while the old token is valid. */
  async get(key: string, signal: AbortSignal, fetch: FetchToken): Promise<Credential> {
    signal.throwIfAborted()
    const held = this.#good(key)
    if (held && this.#clock.now() < held.refreshAt) return held.credential
    try {
      return await this.#shared(key, signal, fetch)
    } catch (error) {
      signal.throwIfAborted()
      const old = this.#good(key)
      if (!old) throw error
      return old.credential
    }
  }

  /** Makes the next caller fetch again if `token` is the held one. */
  forget(key: string, token: string): void {
    if (this.#held.get(key)?.credential.token === token) this.#held.delete(key)
  }

  #good(key: string): Held | undefined {
    const held = this.#held.get(key)
    const now = this.#clock.now()
    return held && held.heldAt <= now && held.expiresAt - MARGIN_MS > now ? held : undefined
  }

  async #shared(key: string, signal: AbortSignal, fetch: FetchToken): Promise<Credential> {
    const flight = this.#flights.get(key) ?? this.#start(key, fetch)
    flight.waiting++
    try {
      return await untilAborted(flight.result, signal)
    } finally {
      flight.waiting--
      if (flight.waiting === 0) this.#end(key, flight)
    }
  }

  #start(key: string, fetch: FetchToken): Flight {
    const abort = new AbortController()
    const flight = { result: this.#fetch(key, fetch, abort.signal), abort, waiting: 0 }
    this.#flights.set(key, flight)
    return flight
  }

  /** Ends a flight that no caller waits for: the next caller starts a new one. */
  #end(key: string, flight: Flight): void {
    flight.abort.abort(new Error('Nobody waits for the token any more'))
    if (this.#flights.get(key) === flight) this.#flights.delete(key)
  }

  async #fetch(key: string, fetch: FetchToken, signal: AbortSignal): Promise<Credential> {
    const askedAt = this.#clock.now()
    try {
      const credential = await fetch(signal)
      rememberToken(credential.token)
      this.#hold(key, credential, askedAt)
      return credential
    } catch (error) {
      const old = this.#good(key)
      if (old && !signal.aborted) {
        this.#held.set(key, { ...old, refreshAt: askedAt + this.#refresh.intervalMs })
        this.#log.warn(`${reasonOf(error)} The old token is used meanwhile.`)
      }
      throw error
    }
  }

  #hold(key: string, credential: Credential, askedAt: number): void {
    for (const [other, { expiresAt }] of this.#held) if (expiresAt <= askedAt) this.#held.delete(other)
    const { expiresAt } = credential
    if (expiresAt === undefined) return
    const before = this.#refresh.beforeMs
    const beforeMs = typeof before === 'number' ? before : before(expiresAt - askedAt)
    this.#held.set(key, {
      credential,
      heldAt: askedAt,
      expiresAt,
      refreshAt: Math.max(expiresAt - beforeMs, askedAt + this.#refresh.intervalMs),
    })
  }
}
