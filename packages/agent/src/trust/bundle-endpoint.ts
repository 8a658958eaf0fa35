/** The bundle of another trust domain, from its endpoint: the profile https_web of SPIFFE Federation (section 5.2.1). */

import type { JsonAnswer, JsonRequest } from '@livery/ca-plugins/support'
import { type RootListener, type RootSource, readSpiffeBundle } from '@livery/core'
import { after, backoff, type Clock, scrub } from '@livery/core/plugin'

/** The part of an `HttpsJson` that it needs. */
interface Connection extends AsyncDisposable {
  request(request: JsonRequest): Promise<JsonAnswer>
}

/** Used without a hint from the endpoint: the specification recommends five minutes. */
const DEFAULT_POLL_MS = 300_000
/** Lower bound of any hint. */
const MIN_POLL_MS = 30_000
const MAX_POLL_MS = 86_400_000
/** Pauses after a failure; the first retries come soon. */
const RETRY = { minMs: 5_000, maxMs: DEFAULT_POLL_MS }
/** Polls come earlier by up to this share, so that nodes that started together spread out. */
const POLL_JITTER = 0.1

export class BundleEndpoint implements RootSource {
  readonly trustDomain: string
  readonly name: string
  readonly clock: Clock
  readonly random: () => number
  readonly #connect: (address: string) => Connection

  /** `connect` connects to the server of the URL; the endpoint closes the connection. `random` gives a number in [0, 1). */
  constructor(
    trustDomain: string,
    url: string,
    clock: Clock,
    connect: (address: string) => Connection,
    random = Math.random,
  ) {
    this.trustDomain = trustDomain
    this.name = url
    this.clock = clock
    this.random = random
    this.#connect = connect
  }

  open(listener: RootListener): Disposable {
    const { origin } = new URL(this.name)
    return new Polls(this, this.#connect(origin), listener)
  }
}

class Polls implements Disposable {
  readonly #endpoint: BundleEndpoint
  readonly #connection: Connection
  readonly #listener: RootListener
  readonly #closed = new AbortController()
  #failures = 0
  #next: Disposable | undefined

  constructor(endpoint: BundleEndpoint, connection: Connection, listener: RootListener) {
    this.#endpoint = endpoint
    this.#connection = connection
    this.#listener = listener
    void this.#poll()
  }

  [Symbol.dispose](): void {
    this.#closed.abort(new Error('the endpoint is no longer asked'))
    this.#next?.[Symbol.dispose]()
    void this.#connection[Symbol.asyncDispose]()
  }

  /** Never rejects. */
  async #poll(): Promise<void> {
    const { clock, random } = this.#endpoint
    const waitMs = await this.#ask()
    if (this.#closed.signal.aborted) return
    this.#next = after(clock, waitMs * (1 - POLL_JITTER * random()), () => void this.#poll())
  }

  /** Resolves with the pause before the next poll. */
  async #ask(): Promise<number> {
    const { trustDomain, name, random } = this.#endpoint
    const { pathname, search } = new URL(name)
    const { signal } = this.#closed
    try {
      const action = `get the bundle of ${trustDomain}`
      const { status, json } = await this.#connection.request({ action, path: `.${pathname}${search}`, signal })
      if (status !== 200) throw new Error(`Cannot ${action}: the endpoint answered ${status}. Check the URL.`)
      const { roots, refreshHintMs = DEFAULT_POLL_MS } = readSpiffeBundle(json)
      if (!signal.aborted) this.#listener.listed(roots)
      this.#failures = 0
      return Math.min(Math.max(refreshHintMs, MIN_POLL_MS), MAX_POLL_MS)
    } catch (error) {
      if (!signal.aborted) this.#listener.failed(scrub(error))
      return backoff(++this.#failures, RETRY, random())
    }
  }
}
