/** The trust bundles, one per trust domain, fed by the CA's own list and by the roots that come with certificates. */
import { type CAClient, CAError } from './ca-client.ts'
import type { Clock } from './clock.ts'
import { errorText } from './error-text.ts'
import type { LedgerEvent } from './ledger.ts'
import { isListOfText } from './pem.ts'
import { type ReadRoots, type Root, RootReader, summarize } from './root-reader.ts'
import { type RetryPolicy, retryDelay } from './rotation.ts'
import type { TrustBundleSecret } from './secret-item.ts'
import { type SpiffeId, trustDomainOf } from './spiffe-id.ts'
import type { Store } from './store.ts'
import { type Learned, type StoredRoot, type TrustAnchor, TrustBundle } from './trust-bundle.ts'
import { untilAborted } from './until-aborted.ts'

/** How often a CA that cannot tell of changes by itself is asked for its roots. */
const POLL_MS = 5 * 60_000
/** The most trust domains of which roots are held. */
const MAX_TRUST_DOMAINS = 100

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

/** What an answer brought along. Nothing of it is trusted before the answer is accepted. */
export interface OfferedRoots extends Pick<ReadRoots, 'roots' | 'rejected'> {
  readonly identity: SpiffeId
}

/** A root that is trusted, and the bundle that holds it. */
export interface AcceptedRoot {
  readonly bundle: TrustBundle
  readonly anchor: TrustAnchor
}

type Listener = (secret: TrustBundleSecret) => void

export class TrustStore implements Disposable {
  /** Resolves when the CA has told its list for the first time, or has failed to, or has none. */
  readonly firstAsked: Promise<void>
  readonly #options: TrustStoreOptions
  readonly #reader = new RootReader()
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

  /** Reads the roots that came with an answer for `identity`; they are not trusted yet. */
  async readOffered(identity: SpiffeId, pems: readonly string[] = []): Promise<OfferedRoots> {
    const { roots, rejected } = await this.#reader.read(pems, this.#options.clock.now())
    return { identity, roots, rejected }
  }

  /** What the chain of an answer may end under: the roots that are trusted, and those that came with it. */
  anchorsFor({ identity, roots }: OfferedRoots): readonly Root[] {
    const known = this.#bundles.get(trustDomainOf(identity))
    return [...(known?.anchors() ?? []), ...roots.filter(root => !known?.anchor(root.fingerprint))]
  }

  /**
   * Takes in the roots of an answer that has passed every check, with a chain that ends under `rootFingerprint`, and gives
   * that one in its bundle. All of them are taken while there is room, since the list is old ∪ new during a rotation.
   * Throws a {@link CAError} if there is no place for the one that the chain needs.
   */
  accept({ identity, roots, rejected }: OfferedRoots, rootFingerprint: string): AcceptedRoot {
    const trustDomain = trustDomainOf(identity)
    const isNeeded = ({ fingerprint }: Root) => fingerprint === rootFingerprint
    const ordered = [...roots.filter(isNeeded), ...roots.filter(root => !isNeeded(root))]
    if (ordered.length > 0 || rejected.length > 0)
      this.#learn(trustDomain, { roots: ordered, rejected }, { listed: false, complete: false })
    const bundle = this.#bundles.get(trustDomain)
    const anchor = bundle?.anchor(rootFingerprint)
    if (bundle && anchor) return { bundle, anchor }
    throw new CAError(
      'bad-response',
      `The root of ${identity} is not trusted: there is no place for it beside those of ${trustDomain}, or it went away meanwhile. Have the CA give up the roots that it does not need, then restart.`,
    )
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
    for (const reason of bundle.restore(taken, this.#reader, clock.now()))
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
      const read = await this.#reader.read(roots, clock.now())
      if (this.#closed.signal.aborted) return
      this.#learn(trustDomain, read, { listed: true, complete: read.isWhole })
      this.#failures = 0
      if (!ca.subscribe) this.#refreshAt(clock.now() + POLL_MS)
      else if (read.validFrom !== undefined) this.#refreshAt(Math.max(read.validFrom, clock.now() + POLL_MS))
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
    const roots = await untilAborted(call(signal), signal)
    if (isListOfText(roots)) return roots
    throw new CAError('bad-response', 'its plugin gave something else than a list of PEM certificates')
  }

  #refreshAt(time: number): void {
    this.#nextRefresh?.[Symbol.dispose]()
    this.#nextRefresh = this.#options.clock.at(time, () => void this.refresh())
  }

  #learn(
    trustDomain: string,
    read: Pick<ReadRoots, 'roots' | 'rejected'>,
    how: { readonly listed: boolean; readonly complete: boolean },
  ): void {
    const { clock, onRootsMoved } = this.#options
    const bundle = this.#bundles.get(trustDomain) ?? this.#newBundle(trustDomain)
    const learned = bundle?.learn(read.roots, { ...how, now: clock.now() }) ?? NO_PLACE
    this.#tellRejected(trustDomain, [...read.rejected, ...learned.rejected])
    if (!bundle) return
    if (learned.added.length > 0) {
      this.#bundles.set(trustDomain, bundle)
      this.#publish(bundle)
    }
    if (learned.added.length > 0 || learned.givenUp.length > 0) {
      this.#keep(bundle)
      onRootsMoved(trustDomain, learned)
      this.schedulePrune(trustDomain)
    }
  }

  #newBundle(trustDomain: string): TrustBundle | undefined {
    // The agent's own always has its place.
    const others = this.#bundles.size - (this.#bundles.has(this.#options.trustDomain) ? 1 : 0)
    if (trustDomain !== this.#options.trustDomain && others >= MAX_TRUST_DOMAINS - 1) return undefined
    return new TrustBundle(trustDomain, this.#options.settleMs)
  }

  #tellRejected(trustDomain: string, reasons: readonly string[]): void {
    if (reasons.length === 0) return
    const message = `Roots were left out: ${summarize(reasons)}`
    this.#options.record(`spiffe://${trustDomain}`, { kind: 'ca-error', code: 'bad-response', message })
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

const NO_PLACE: Learned = {
  added: [],
  givenUp: [],
  rejected: [`roots of ${MAX_TRUST_DOMAINS} trust domains are held already`],
}

function withoutList(standing: StoredRoot['standing']): StoredRoot['standing'] {
  return standing === 'listed' ? 'inferred' : standing
}
