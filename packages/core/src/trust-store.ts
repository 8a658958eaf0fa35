/** The trust bundles, one per trust domain, fed by the CA's own list and by the roots that come with certificates. */

import { type CAClient, CAError, type IssuedCertificate } from './ca-client.ts'
import type { Clock } from './clock.ts'
import { errorText } from './error-text.ts'
import type { LedgerEvent } from './ledger.ts'
import { type RetryPolicy, retryDelay } from './rotation.ts'
import type { TrustBundleSecret } from './secret-item.ts'
import { type SpiffeId, trustDomainOf } from './spiffe-id.ts'
import type { Store } from './store.ts'
import { type Learned, type StoredRoot, type TrustAnchor, TrustBundle } from './trust-bundle.ts'
import { untilAborted } from './until-aborted.ts'

/** How often a CA that cannot tell of changes by itself is asked for its roots. */
const POLL_MS = 5 * 60_000

export interface TrustStoreOptions {
  readonly ca: CAClient
  readonly clock: Clock
  readonly random: () => number
  readonly trustDomain: string
  readonly settleMs: number
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  /** Has the roots of the trust domain from the process before, and keeps them for the next. */
  readonly store?: Store | undefined
  readonly record: (name: string, event: LedgerEvent) => void
  /** Called when roots came or were given up: leaves should follow. */
  readonly onRootsMoved: (trustDomain: string, learned: Learned) => void
}

type Listener = (secret: TrustBundleSecret) => void

export class TrustStore implements Disposable {
  /** Resolves when the CA has told its list for the first time, or has failed to, or has none. */
  readonly firstAsked: Promise<void>
  readonly #options: TrustStoreOptions
  readonly #bundles = new Map<string, TrustBundle>()
  readonly #listeners = new Map<string, Set<Listener>>()
  readonly #prunes = new Map<string, Disposable>()
  readonly #closed = new AbortController()
  #refreshing: Promise<void> | undefined
  #refreshingAgain: Promise<void> | undefined
  #nextRefresh: Disposable | undefined
  #failures = 0

  constructor(options: TrustStoreOptions) {
    this.#options = options
    if (options.store) this.#restore(options.store)
    this.firstAsked = this.refresh()
  }

  bundle(trustDomain: string): TrustBundle | undefined {
    return this.#bundles.get(trustDomain)
  }

  bundles(): Iterable<TrustBundle> {
    return this.#bundles.values()
  }

  subscribe(trustDomain: string, listener: Listener): Disposable {
    const listeners = this.#listeners.get(trustDomain) ?? new Set()
    this.#listeners.set(trustDomain, listeners.add(listener))
    return { [Symbol.dispose]: () => void listeners.delete(listener) }
  }

  /** Takes in the roots that came with a certificate, and gives those that its chain may end under. */
  async anchorsFor(identity: SpiffeId, answer: IssuedCertificate): Promise<readonly TrustAnchor[]> {
    const trustDomain = trustDomainOf(identity)
    if (answer.roots && answer.roots.length > 0) this.#learn(trustDomain, answer.roots, false)
    else if (!this.#bundles.has(trustDomain)) await this.refresh()
    return this.#bundles.get(trustDomain)?.anchors() ?? []
  }

  /** Asks the CA for its list now, once for all who ask meanwhile. Never rejects: a failure is recorded and tried again. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  /** As {@link refresh}, once the CA has told of a change: a list that was asked for before may not have it yet. */
  refreshAgain(): Promise<void> {
    this.#refreshingAgain ??= this.#refreshAgain()
    return this.#refreshingAgain
  }

  /** Looks, once the settle time has passed, whether a root can go; not once it is closed. */
  schedulePrune(trustDomain: string): void {
    const { clock, settleMs } = this.#options
    const bundle = this.#bundles.get(trustDomain)
    if (!bundle || this.#prunes.has(trustDomain) || this.#closed.signal.aborted) return
    const timer = clock.at(clock.now() + settleMs, () => {
      this.#prunes.delete(trustDomain)
      if (!bundle.prune(clock.now())) return
      this.#publish(bundle)
      this.#keep(bundle)
    })
    this.#prunes.set(trustDomain, timer)
  }

  [Symbol.dispose](): void {
    this.#closed.abort(new Error('the trust store is closed'))
    this.#nextRefresh?.[Symbol.dispose]()
    for (const timer of this.#prunes.values()) timer[Symbol.dispose]()
    this.#listeners.clear()
  }

  #restore({ roots }: Store): void {
    const { trustDomain, settleMs, clock, ca } = this.#options
    // No list will ever give up what another CA had listed.
    const taken = ca.trustBundle ? roots : roots.map(root => ({ ...root, standing: withoutList(root.standing) }))
    const bundle = new TrustBundle(trustDomain, settleMs)
    for (const reason of bundle.restore(taken, clock.now()))
      this.#options.record(`spiffe://${trustDomain}`, { kind: 'not-restored', reason })
    if (!bundle.secret) return
    this.#bundles.set(trustDomain, bundle)
    this.#publish(bundle)
  }

  #keep(bundle: TrustBundle): void {
    if (bundle.trustDomain === this.#options.trustDomain) this.#options.store?.keepRoots(bundle.stored())
  }

  async #refreshAgain(): Promise<void> {
    await this.#refreshing
    this.#refreshingAgain = undefined
    await this.refresh()
  }

  async #refresh(): Promise<void> {
    const { ca, clock, trustDomain, record } = this.#options
    if (!ca.trustBundle || this.#closed.signal.aborted) return
    try {
      const roots = await this.#ask(signal => ca.trustBundle?.({ signal }) ?? Promise.resolve([]))
      if (this.#closed.signal.aborted) return
      this.#learn(trustDomain, roots, true)
      this.#failures = 0
      if (!ca.subscribe) this.#refreshAt(clock.now() + POLL_MS)
    } catch (error) {
      if (this.#closed.signal.aborted) return
      const { code, message } = error instanceof CAError ? error : new CAError('unavailable', errorText(error))
      record(`spiffe://${trustDomain}`, {
        kind: 'ca-error',
        code,
        message: `The CA did not tell its roots: ${message}`,
      })
      const at = clock.now() + retryDelay(++this.#failures, this.#options.retry, this.#options.random())
      record(`spiffe://${trustDomain}`, { kind: 'retry-planned', at })
      this.#refreshAt(at)
    }
  }

  async #ask(call: (signal: AbortSignal) => Promise<readonly string[]>): Promise<readonly string[]> {
    const { clock, timeoutMs } = this.#options
    const deadline = new AbortController()
    using _timer = clock.at(clock.now() + timeoutMs, () =>
      deadline.abort(new CAError('timeout', `no answer within ${timeoutMs} ms`)),
    )
    const signal = AbortSignal.any([deadline.signal, this.#closed.signal])
    return await untilAborted(call(signal), signal)
  }

  #refreshAt(time: number): void {
    this.#nextRefresh?.[Symbol.dispose]()
    this.#nextRefresh = this.#options.clock.at(time, () => void this.refresh())
  }

  #learn(trustDomain: string, roots: readonly string[], complete: boolean): void {
    const { clock, record, settleMs, onRootsMoved } = this.#options
    const bundle = this.#bundles.get(trustDomain) ?? new TrustBundle(trustDomain, settleMs)
    const learned = bundle.learn(roots, { complete, now: clock.now() })
    for (const reason of learned.rejected) {
      record(`spiffe://${trustDomain}`, { kind: 'ca-error', code: 'bad-response', message: `Left out: ${reason}` })
    }
    if (bundle.anchors().length > 0) this.#bundles.set(trustDomain, bundle)
    if (learned.added.length > 0) this.#publish(bundle)
    if (learned.added.length > 0 || learned.givenUp.length > 0) {
      this.#keep(bundle)
      onRootsMoved(trustDomain, learned)
      this.schedulePrune(trustDomain)
    }
  }

  #publish(bundle: TrustBundle): void {
    const { secret, trustDomain } = bundle
    if (!secret) return
    this.#options.record(`spiffe://${trustDomain}`, {
      kind: 'roots-changed',
      version: secret.version,
      roots: bundle.anchors().length,
    })
    for (const listener of this.#listeners.get(trustDomain) ?? []) listener(secret)
  }
}

function withoutList(standing: StoredRoot['standing']): StoredRoot['standing'] {
  return standing === 'listed' ? 'inferred' : standing
}
