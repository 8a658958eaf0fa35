/** The one owner of secrets: who has which certificate, when it is renewed, which roots are trusted. */

import { type CertificateWish, NO_WISH } from './contract/certificate-wish.ts'
import { Events } from './contract/events.ts'
import type { RootSource } from './contract/root-source.ts'
import type { SecretReport } from './contract/secret-event.ts'
import type { Engine } from './engine.ts'
import { formatFileName } from './file-secrets/file-secret-name.ts'
import type { FileSecrets } from './file-secrets/file-secrets.ts'
import type { SecretManagerOptions } from './secret-manager-options.ts'
import { assemble, type SecretManagerParts } from './secret-manager-parts.ts'
import { ALL_BUNDLES, type SecretItem } from './secrets/secret-item.ts'
import type { SecretName } from './secrets/secret-name.ts'
import type { Listener } from './secrets/watch.ts'
import type { SpiffeId } from './spiffe/spiffe-id.ts'
import { type IdentityEntry, toEntry } from './state/entry.ts'
import type { Identity } from './state/identity.ts'
import { plannedPerMinute, type ScheduleStatus, scheduleStatus } from './state/schedule-status.ts'
import type { Clock } from './time/clock.ts'
import { untilAborted } from './time/deadline.ts'
import type { Receipts } from './trust/bundle-receipts.ts'
import type { BundleTable } from './trust/bundle-table.ts'
import {
  type BundleEntry,
  bundleEntries,
  type RootAction,
  type RootActionResult,
  type RotationStatus,
  rootToChange,
  rotationsOf,
  statusOf,
} from './trust/rotation-status.ts'

/** Settings of one added identity. */
interface Additions {
  readonly tokenFile?: string
  readonly wish?: CertificateWish
}

/**
 * Keeps a certificate for every identity that was added, renews it before it ends, and notifies subscribers. A
 * certificate that it serves was checked, is within its dates, and stays until its replacement is there.
 */
export class SecretManager implements AsyncDisposable {
  readonly trustDomain: string
  /** Emits each change of an identity or a bundle. */
  readonly events: Events<SecretReport>
  /** The secrets that callers request by file names. */
  readonly files: FileSecrets | undefined
  /** A server reports here which bundles its live streams were sent, and how they answered. */
  readonly receipts: Receipts
  readonly #clock: Clock
  readonly #parts: SecretManagerParts
  readonly #engine: Engine

  constructor(options: SecretManagerOptions) {
    const { clock, trustDomain, files, events = new Events() } = options
    this.trustDomain = trustDomain
    this.events = events
    this.files = files
    this.#clock = clock
    this.#parts = assemble(options, (name, event) => events.emit({ name, time: clock.now(), event }))
    this.#engine = this.#parts.engine
    this.receipts = this.#engine.state.receipts
  }

  /**
   * Pins `identity`: a certificate is held for it until it is removed. Adding it again keeps the certificate, cancels its
   * removal and replaces its `tokenFile` and its `wish`; another wish is followed by another certificate, soon.
   */
  add(identity: SpiffeId, { tokenFile, wish = NO_WISH }: Additions = {}): void {
    this.#engine.dispatch({ kind: 'added', id: identity, tokenFile, wish })
  }

  /**
   * Unpins an identity: after the grace period it is forgotten, streamed or not. Until then it is held and renewed as
   * before, unless it is unused and its room is needed; adding it again cancels that.
   */
  remove(identity: SpiffeId): void {
    this.#engine.dispatch({ kind: 'removed', id: identity })
  }

  /** Forgets an identity at once: a request in flight is aborted, its key wiped, its subscribers notified. */
  forget(identity: SpiffeId): void {
    this.#engine.dispatch({ kind: 'dropped', id: identity })
  }

  /**
   * Renews the certificate of an identity now: at most one request at a time, and none within a second of the last
   * certificate. `false` if it is not held.
   */
  renew(identity: SpiffeId): boolean {
    this.#engine.dispatch({ kind: 'renewalAsked', id: identity })
    return this.#identities.has(identity)
  }

  /** Resolves when the identities that were added by now have what the store has for them. */
  restored(): Promise<void> {
    return this.#engine.restored()
  }

  /** Tries `identity` again at once, as if it were new: the cause of its failures may be gone, as when a pod of it comes. */
  retry(identity: SpiffeId): void {
    this.#engine.dispatch({ kind: 'retryAsked', id: identity })
  }

  /** The cause of failures may be gone: retries failed requests soon, and probes a CA that is down. */
  retryFailing(): void {
    this.#engine.dispatch({ kind: 'retryAsked' })
  }

  knows(name: SecretName): boolean {
    if (name.kind === 'identity') return this.#identities.has(name.identity)
    if (name.kind === 'all-bundles') return true
    if (name.kind !== 'bundle') return this.files?.holds(formatFileName(name)) ?? false
    return this.#knowsDomain(name.trustDomain)
  }

  /** Whether something is held under a name: the SPIFFE ID of an identity or of a trust domain, or files. */
  holds(name: string): boolean {
    if (this.#identities.has(name)) return true
    if (this.files?.holds(name) || name === ALL_BUNDLES) return true
    return name.startsWith(SCHEME) && this.#knowsDomain(name.slice(SCHEME.length))
  }

  /**
   * Replaces the operator's root sources; a source that is given again stays open. Resolves when the lists known by
   * then are trusted.
   */
  useRootSources(sources: readonly RootSource[]): Promise<void> {
    return this.#parts.feeds.useRoots(sources)
  }

  /** Replaces the revocation lists; a trust domain without a source has none. */
  useCrlSources(sources: readonly RootSource[]): void {
    this.#parts.feeds.crls.use(sources)
  }

  /** The trust domains with roots, known or awaited, its own first. */
  trustDomains(): Iterable<string> {
    return new Set([
      this.trustDomain,
      ...this.#bundles.byTrustDomain.keys(),
      ...this.#parts.feeds.configured.trustDomains(),
    ])
  }

  /** The root rotations of all trust domains. */
  rotations(): readonly RotationStatus[] {
    return rotationsOf(this.#bundles, this.#clock.now())
  }

  /** Holds, resumes or drops a root, as an operator wishes; the first digits of its fingerprint are enough. */
  changeRoot(action: RootAction, fingerprint: string): RootActionResult {
    const found = rootToChange(this.#bundles, action, fingerprint)
    if (typeof found === 'string') return { refused: found }
    const { bundle, root } = found
    this.#engine.dispatch({ kind: 'rootChanged', bundle, fingerprint: root.anchor.fingerprint, action })
    return { done: statusOf(bundle, root, this.#clock.now()) }
  }

  identities(): Iterable<SpiffeId> {
    return this.#engine.state.identities.keys()
  }

  /**
   * Reports that somebody waits: an identity without a certificate becomes urgent. An unknown identity is issued on
   * demand, and kept while it is used and there is room. Without room the ledger says so, and it is issued once there
   * is some, if it is watched now and until then.
   */
  request(identity: SpiffeId): void {
    this.#engine.dispatch({ kind: 'asked', id: identity })
  }

  /**
   * The newest version that may be used now, or `undefined` while there is none. Use it at once: its key is wiped when the
   * next version arrives.
   */
  current(name: SecretName): SecretItem | undefined {
    if (name.kind === 'bundle') return this.#bundles.current(name.trustDomain, name.identity)
    if (name.kind === 'all-bundles') return this.#bundles.all(name.identity)
    if (name.kind === 'identity') return this.#engine.current(name.identity)
    return this.files?.current(name)
  }

  /**
   * Calls `listener` with each new version, and with `undefined` when it is withdrawn; never inside this call, nor once the
   * watch is disposed. A name that is not known yet may be watched. An identity that is held and has no certificate becomes
   * urgent.
   */
  watch(name: SecretName, listener: Listener): Disposable {
    if (name.kind === 'bundle') return this.#parts.listeners.add(name.trustDomain, name.identity, listener)
    if (name.kind === 'all-bundles') return this.#parts.listeners.addForAll(name.identity, listener)
    if (name.kind === 'identity') return this.#engine.watch(name.identity, listener)
    return this.files?.subscribe(name, listener) ?? { [Symbol.dispose]: () => {} }
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
    return Array.from(this.#identities.values(), identity => this.#toEntry(identity))
  }

  /** One identity; `undefined` if it is not held. */
  entry(identity: string): IdentityEntry | undefined {
    const present = this.#identities.get(identity)
    return present && this.#toEntry(present)
  }

  /** The requests to the CA that are in flight or wait, and why they wait. */
  schedule(): ScheduleStatus {
    return scheduleStatus(this.#engine.state)
  }

  /** How many requests to the CA, renewals and retries, fall due in each of the next 60 minutes, this minute first. */
  plannedPerMinute(): readonly number[] {
    return plannedPerMinute(this.#identities.values(), this.#clock.now())
  }

  /** The bundles of trust domains, then the bundles of identities with own roots. */
  bundles(): readonly BundleEntry[] {
    return bundleEntries(this.#bundles)
  }

  /** Forgets everything; resolves when no request is in flight. The CA client stays open: its creator closes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closing = this.#engine[Symbol.asyncDispose]()
    this.#parts.ends[Symbol.dispose]()
    await closing
  }

  get #bundles(): BundleTable {
    return this.#engine.state.bundles
  }

  #knowsDomain(trustDomain: string): boolean {
    const isHeld = trustDomain === this.trustDomain || this.#bundles.get(trustDomain) !== undefined
    return isHeld || this.#parts.feeds.configured.has(trustDomain)
  }

  /** Looked up by any name: a name that is not an identity is simply not found. */
  get #identities(): ReadonlyMap<string, Identity> {
    return this.#engine.state.identities
  }

  #toEntry(identity: Identity): IdentityEntry {
    return toEntry(identity, this.#clock.now(), this.#engine.state.ca.absence.nextProbeAt)
  }
}

const SCHEME = 'spiffe://'
