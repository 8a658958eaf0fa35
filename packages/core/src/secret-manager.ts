/** The one owner of secrets: who has which certificate, when it is renewed, which roots are trusted. */

import { Events } from './contract/events.ts'
import type { RootSource } from './contract/root-source.ts'
import type { SecretEvent, SecretReport } from './contract/secret-event.ts'
import type { PendingRequests, Store } from './contract/store.ts'
import type { TrustAnchor } from './contract/trust-anchor.ts'
import { formatFileName } from './file-secrets/file-secret-name.ts'
import type { FileSecrets } from './file-secrets/file-secrets.ts'
import type { IdentityEntry } from './identity/identity-entry.ts'
import { type IdentityKeeper, IdentityTable } from './identity/identity-table.ts'
import type { ManagedIdentity } from './identity/managed-identity.ts'
import type { Receipts } from './identity/receipts.ts'
import { ALL_BUNDLES, type SecretItem, type TrustBundleSecret } from './identity/secret-item.ts'
import type { Listener } from './identity/subscribers.ts'
import { NameWatch, type SecretName, type Watch, type Watchable } from './identity/watch.ts'
import { ClockGuard } from './issuance/clock-guard.ts'
import { FetchSchedule } from './issuance/fetch-schedule.ts'
import { phaseOf } from './issuance/renewal-time.ts'
import type { ScheduleStatus } from './issuance/schedule-status.ts'
import { type SecretManagerOptions, withDefaults } from './secret-manager-options.ts'
import type { SpiffeId } from './spiffe/spiffe-id.ts'
import type { Clock } from './time/clock.ts'
import { untilAborted } from './time/until-aborted.ts'
import type { RootAction, RootActionResult, RotationStatus } from './trust/rotation-control.ts'
import { TrustStore } from './trust/trust-store.ts'

/** The bundle of a trust domain, or the roots that count for one identity only. */
export interface BundleEntry {
  readonly trustDomain: string
  readonly identity?: SpiffeId
  readonly secret: TrustBundleSecret
  readonly roots: readonly TrustAnchor[]
}

/**
 * Keeps a certificate for every identity that was added, renews it before it ends, and notifies subscribers. A
 * certificate that it serves was checked, is within its dates, and stays until its replacement is there.
 */
export class SecretManager implements AsyncDisposable {
  readonly trustDomain: string
  /** Reports each change of an identity or a bundle. */
  readonly events: Events<SecretReport>
  /** The secrets that are asked for by the names of files. */
  readonly files: FileSecrets | undefined
  readonly #clock: Clock
  readonly #table: IdentityTable
  readonly #trust: TrustStore
  readonly #schedule: FetchSchedule
  readonly #pending: PendingRequests
  readonly #watchable: Watchable = {
    current: name => this.current(name),
    request: identity => this.#table.request(identity),
  }
  /** Until the manager is closed: what is forgotten then is there for the next process. */
  #store: Store | undefined
  readonly #clearing: Disposable | undefined
  readonly #caChanges: Disposable | undefined
  readonly #clockGuard: ClockGuard

  constructor(options: SecretManagerOptions) {
    const { issuance, ttlSeconds, random, rotation, rootsPollMs, retry, concurrency, ...retention } =
      withDefaults(options)
    const { clock, timeoutMs, pending } = issuance
    const { ca, store } = options
    const report = (name: string, event: SecretEvent) => this.#report(name, event)
    this.trustDomain = options.trustDomain
    this.events = options.events ?? new Events()
    // Nodes that hold the same identities, each started at its own time, renew them at different ones.
    const phaseOffset = random()
    this.files = options.files
    this.#clock = clock
    this.#pending = pending
    this.#store = store
    store?.failures.subscribe(({ name, failure }) => report(name, failure))
    this.#table = new IdentityTable({
      ...retention,
      clock,
      phaseOf: identity => (phaseOf(identity) + phaseOffset) % 1,
      report,
      keeper: this.#keeper(),
    })
    this.#trust = new TrustStore({
      ca,
      verifier: issuance.verifier,
      revokesMissingRoots: options.revokesMissingRoots ?? false,
      clock,
      random,
      trustDomain: options.trustDomain,
      settleMs: rotation.settleMs,
      ownSettleMs: rotation.ownSettleMs,
      pollMs: rootsPollMs,
      ackWaitMs: rotation.ackWaitMs,
      overlapMs: rotation.overlapMs,
      timeoutMs,
      retry,
      rootSources: options.rootSources ?? [],
      crlSources: options.crlSources ?? [],
      store,
      record: report,
      onRootsMoved: (bundle, learned) => this.#schedule.onRootsMoved(bundle, learned),
      onListsChanged: trustDomain => this.#schedule.revoked.check(trustDomain),
      onPublished: bundle => this.#schedule.preflight.check(bundle),
      onTrusted: (bundle, fingerprint) => this.#schedule.rollout.onTrusted(bundle, fingerprint),
    })
    this.#schedule = new FetchSchedule({
      issuance,
      ttlSeconds,
      random,
      rotation,
      retry,
      concurrency,
      trust: this.#trust,
      store,
      identities: this.#table.held,
      isUsed: identity => this.#table.isUsed(identity),
      record: report,
    })
    // By then configured identities are held, and those in use on demand were requested.
    const clearAt = clock.now() + Math.max(retention.removalGraceMs, retention.idle.afterMs)
    this.#clearing = store && clock.at(clearAt, () => store.forgetUntaken())
    this.#trust.start()
    this.#clockGuard = new ClockGuard({
      clock,
      trust: this.#trust,
      schedule: this.#schedule,
      report: event => report(`spiffe://${options.trustDomain}`, event),
    })
    this.#caChanges = ca.subscribe?.(change => this.#schedule.onCAChange(change))
  }

  /**
   * Pins `identity`: a certificate is held for it until it is removed. Adding it again keeps the certificate, cancels its
   * removal and replaces its `tokenFile`.
   */
  add(identity: SpiffeId, { tokenFile }: { readonly tokenFile?: string } = {}): void {
    this.#table.pin(identity, tokenFile)
  }

  /**
   * Unpins an identity: after the grace period it is forgotten, streamed or not. Until then it is held and renewed as
   * before, unless it is unused and its room is needed; adding it again cancels that.
   */
  remove(identity: SpiffeId): void {
    this.#table.unpin(identity)
  }

  /** Forgets an identity at once: a request in flight is aborted, its key wiped, its subscribers notified. */
  forget(identity: SpiffeId): void {
    this.#table.forget(identity)
  }

  /**
   * Renews the certificate of an identity now: at most one request at a time, and none within a second of the last
   * certificate. `false` if it is not held.
   */
  renew(identity: SpiffeId): boolean {
    const managed = this.#table.held.get(identity)
    if (managed) this.#schedule.renewNow(managed)
    return managed !== undefined
  }

  /** Resolves when the identities that were added by now have what the store has for them. */
  restored(): Promise<void> {
    return this.#schedule.restored()
  }

  /** What `identity` failed for may be gone, as when a pod of it comes: it is tried again at once, as if it were new. */
  retry(identity: SpiffeId): void {
    const managed = this.#table.held.get(identity)
    if (managed) this.#schedule.retryNow(managed)
  }

  /** The cause of failures may be gone: what failed is tried again soon, and a CA that is down probed. */
  retryFailing(): void {
    this.#schedule.retryFailing()
  }

  knows(name: SecretName): boolean {
    if (name.kind === 'identity') return this.#table.held.has(name.identity)
    if (name.kind === 'all-bundles') return true
    if (name.kind !== 'bundle') return this.files?.holds(formatFileName(name)) ?? false
    return name.trustDomain === this.trustDomain || this.#trust.knows(name.trustDomain)
  }

  /** Whether something is held under a name: the SPIFFE ID of an identity or of a trust domain, or files. */
  holds(name: string): boolean {
    if ((this.#table.held as ReadonlyMap<string, ManagedIdentity>).has(name)) return true
    if (this.files?.holds(name) || name === ALL_BUNDLES) return true
    return name === `spiffe://${this.trustDomain}` || this.#trust.knows(name.slice('spiffe://'.length))
  }

  /**
   * Replaces the roots that the operator lists; a source that is given again stays open. Resolves when the lists that are
   * known by then are trusted.
   */
  useRootSources(sources: readonly RootSource[]): Promise<void> {
    return this.#trust.useRootSources(sources)
  }

  /** Replaces the revocation lists; a trust domain without a source has none. */
  useCrlSources(sources: readonly RootSource[]): void {
    this.#trust.useCrlSources(sources)
  }

  /** The trust domains of which roots are held or waited for, its own first. */
  trustDomains(): Iterable<string> {
    return this.#trust.trustDomains()
  }

  /** The root rotations of all trust domains. */
  rotations(): readonly RotationStatus[] {
    return this.#trust.control.status()
  }

  /** Holds, resumes or drops a root, as an operator wishes; the first digits of its fingerprint are enough. */
  changeRoot(action: RootAction, fingerprint: string): RootActionResult {
    return this.#trust.control.change(action, fingerprint)
  }

  /** Where a server reports what its live streams were sent, and how they answered. */
  get receipts(): Receipts {
    return this.#trust.receipts
  }

  identities(): Iterable<SpiffeId> {
    return this.#table.held.keys()
  }

  /** The newest version that may be used now, or `undefined` while there is none. */
  current(name: SecretName): SecretItem | undefined {
    if (name.kind === 'bundle') return this.#trust.bundles.current(name.trustDomain, name.identity)
    if (name.kind === 'all-bundles') return this.#trust.bundles.all(name.identity)
    if (name.kind === 'identity') return this.#table.held.get(name.identity)?.served.current?.secret
    return this.files?.current(name)
  }

  /**
   * Calls `listener` with each new version, and with `undefined` when it is withdrawn; never inside this call. A name that
   * is not known yet may be watched. An identity that is held and has no certificate becomes urgent.
   */
  watch(name: SecretName, listener: Listener): Watch {
    return new NameWatch(this.#watchable, name, this.#subscribe(name, listener))
  }

  /** The newest version, waiting for the first one. Rejects with the signal's reason, or when `name` is not known. */
  async get(name: SecretName, { signal }: { readonly signal: AbortSignal }): Promise<SecretItem> {
    signal.throwIfAborted()
    if (!this.knows(name)) throw new TypeError(`Cannot get ${JSON.stringify(name)}: it was not added`)
    const present = this.current(name)
    if (present) return present
    const { promise, resolve, reject } = Promise.withResolvers<SecretItem>()
    using _watch = this.watch(name, item => {
      if (item) resolve(item)
      else if (!this.knows(name)) reject(new Error(`${JSON.stringify(name)} was forgotten`))
    })
    return await untilAborted(promise, signal)
  }

  /** Every identity, in the order in which they came. */
  entries(): readonly IdentityEntry[] {
    return Array.from(this.#table.held.values(), managed => managed.toEntry(this.#schedule.nextProbeAt))
  }

  /** One identity; `undefined` if it is not held. */
  entry(identity: string): IdentityEntry | undefined {
    return (this.#table.held as ReadonlyMap<string, ManagedIdentity>).get(identity)?.toEntry(this.#schedule.nextProbeAt)
  }

  /** The requests to the CA that are in flight or wait, and why they wait. */
  schedule(): ScheduleStatus {
    return this.#schedule.status()
  }

  /** How many requests to the CA fall due in each of the next 60 minutes, renewals and retries, those of this minute first. */
  plannedPerMinute(): readonly number[] {
    return this.#schedule.plannedPerMinute()
  }

  /** The bundles of trust domains, then those of identities that have roots of their own. */
  bundles(): readonly BundleEntry[] {
    return this.#trust.bundles.values().flatMap(bundle => {
      const { trustDomain, secret, owner } = bundle
      return secret ? [{ trustDomain, secret, roots: bundle.anchors(), ...(owner && { identity: owner }) }] : []
    })
  }

  /** Forgets everything; resolves when no request is in flight. The CA client stays open: its creator closes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#caChanges?.[Symbol.dispose]()
    this.#clockGuard[Symbol.dispose]()
    this.#pending[Symbol.dispose]()
    this.#clearing?.[Symbol.dispose]()
    this.#store = undefined
    this.#table[Symbol.dispose]()
    this.#trust[Symbol.dispose]()
    await this.#schedule[Symbol.asyncDispose]()
  }

  #report(name: string, event: SecretEvent): void {
    this.events.emit({ name, time: this.#clock.now(), event })
  }

  #subscribe(name: SecretName, listener: Listener): Disposable {
    if (name.kind === 'bundle') return this.#trust.bundles.subscribe(name.trustDomain, name.identity, listener)
    if (name.kind === 'all-bundles') return this.#trust.bundles.subscribeAll(name.identity, listener)
    if (name.kind === 'identity') return this.#table.subscribe(name.identity, listener)
    return this.files?.subscribe(name, listener) ?? { [Symbol.dispose]: () => {} }
  }

  #keeper(): IdentityKeeper {
    return {
      start: managed => this.#schedule.start(managed),
      hurry: managed => this.#schedule.hurry(managed),
      tokenChanged: managed => this.#schedule.retryNow(managed),
      served: (managed, change) => {
        if (change === 'served') this.#putInStore(managed)
        else this.#schedule.onExpired(managed, { isWanted: this.#table.isUsed(managed.identity) })
      },
      stop: (managed, kind) => {
        this.#schedule.stop(managed, kind)
        this.#store?.forget(managed.identity)
        if (kind === 'forgotten') this.#trust.forgetOwn(managed.identity)
      },
    }
  }

  /** The one that is served, not one that waits for its time: a restart must find what can be used at once. */
  #putInStore({ identity, served: { current } }: ManagedIdentity): void {
    if (!current || current.source === 'store' || current.source === 'bootstrap') return
    if (!this.#store) return
    const { secret, source, receivedAt, phase } = current
    const roots = this.#trust.bundles
      .own(identity)
      ?.anchors()
      .map(({ pem }) => pem)
    const facts = {
      chain: secret.certificateChain,
      receivedAt,
      phase,
      isProvisional: source === 'brought',
      ...(roots && { roots }),
    }
    secret.privateKey.open(privateKey => this.#store?.put(identity, { ...facts, privateKey }))
  }
}
