/** The one owner of secrets: who has which certificate, when it is renewed, which roots are trusted. */
import { AdaptiveLimit } from './adaptive-limit.ts'
import { type CAChange, type CAClient, CAError } from './ca-client.ts'
import { type CertificateVerifier, nodeCertificateVerifier } from './certificate-verifier.ts'
import type { Clock } from './clock.ts'
import { FetchQueue, type Urgency } from './fetch-queue.ts'
import { type IssuanceOptions, type Issued, issue } from './issuance.ts'
import type { KeyGenerator, KeyType, PrivateKeyFormat } from './key-generator.ts'
import { Ledger, type LedgerEntry, type LedgerEvent } from './ledger.ts'
import { type Activity, type IdentityEntry, type Managed, type Reason, toEntry } from './managed-identity.ts'
import { MIN_RENEWAL_INTERVAL_MS, phaseOf, renewalTime, retryDelay } from './rotation.ts'
import type { SecretItem, TrustBundleSecret } from './secret-item.ts'
import { ServedCertificate } from './served-certificate.ts'
import { type SpiffeId, trustDomainOf } from './spiffe-id.ts'
import type { Learned, TrustAnchor } from './trust-bundle.ts'
import { TrustStore } from './trust-store.ts'
import { untilAborted } from './until-aborted.ts'

/** What can be asked for: the certificate of an identity, or the bundle of a trust domain. */
export type SecretName =
  | { readonly kind: 'identity'; readonly identity: SpiffeId }
  | { readonly kind: 'bundle'; readonly trustDomain: string }

export interface SecretManagerOptions {
  readonly ca: CAClient
  readonly keyGenerator: KeyGenerator
  readonly clock: Clock
  readonly trustDomain: string
  /** In [0, 1). Default: `Math.random`. */
  readonly random?: () => number
  /** Default: on node:crypto. */
  readonly verifier?: CertificateVerifier
  /** Default: `ecdsa-p256`. */
  readonly keyType?: KeyType
  /** Default: `pkcs8`. */
  readonly keyFormat?: PrivateKeyFormat
  /** The lifetime to ask for, seconds. Default: 86,400. */
  readonly ttlSeconds?: number
  readonly rotation?: {
    /** Fraction of the remaining lifetime after which to renew. Default: 0.5. */
    readonly ratio?: number
    /** Half-width of the renewal window, as a fraction of the lifetime. Default: 0.1. */
    readonly jitter?: number
    /** How long a new root is only trusted before leaves under it are served, milliseconds. Default: 10,000. */
    readonly settleMs?: number
  }
  /** Per identity, doubling ±20 %, reset on success. Defaults: 500 and 150,000 ms. */
  readonly retry?: { readonly minMs?: number; readonly maxMs?: number }
  /** Deadline of one call to the CA, milliseconds. Default: 30,000. */
  readonly timeoutMs?: number
  /** At most so many calls to the CA in flight; how many there are adapts to what the CA takes. Default: 64. */
  readonly concurrency?: number
  /** Called with every ledger entry as it is made, for logs and metrics. */
  readonly observe?: (name: string, entry: LedgerEntry) => void
}

/** What the manager knows of a trust domain. */
export interface BundleEntry {
  readonly trustDomain: string
  readonly secret: TrustBundleSecret
  readonly roots: readonly TrustAnchor[]
}

type Listener = (item: SecretItem | undefined) => void

/**
 * Keeps a certificate for every identity that was added, renews it before it ends, and tells subscribers. What it
 * serves was checked, is within its dates, and stays until its replacement is there.
 */
export class SecretManager implements AsyncDisposable {
  readonly trustDomain: string
  readonly #observe: SecretManagerOptions['observe']
  readonly #issuance: IssuanceOptions
  readonly #clock: Clock
  readonly #random: () => number
  readonly #rotation: { readonly ratio: number; readonly jitter: number; readonly settleMs: number }
  readonly #retry: { readonly minMs: number; readonly maxMs: number }
  readonly #identities = new Map<SpiffeId, Managed>()
  readonly #listeners = new Map<SpiffeId, Set<Listener>>()
  readonly #queue: FetchQueue<Managed>
  readonly #limit: AdaptiveLimit
  readonly #ledger = new Ledger()
  readonly #trust: TrustStore
  readonly #caChanges: Disposable | undefined
  readonly #inFlight = new Set<Promise<void>>()
  #pause: Disposable | undefined

  constructor(options: SecretManagerOptions) {
    this.#observe = options.observe
    this.#issuance = {
      ca: options.ca,
      keyGenerator: options.keyGenerator,
      verifier: options.verifier ?? nodeCertificateVerifier,
      clock: options.clock,
      keyType: options.keyType ?? 'ecdsa-p256',
      keyFormat: options.keyFormat ?? 'pkcs8',
      ttlSeconds: options.ttlSeconds ?? 86_400,
      timeoutMs: options.timeoutMs ?? 30_000,
    }
    this.trustDomain = options.trustDomain
    this.#clock = options.clock
    this.#random = options.random ?? Math.random
    this.#rotation = { ratio: 0.5, jitter: 0.1, settleMs: 10_000, ...options.rotation }
    this.#retry = { minMs: 500, maxMs: 150_000, ...options.retry }
    this.#limit = new AdaptiveLimit(options.concurrency ?? 64)
    const limit = this.#limit
    this.#queue = new FetchQueue(
      () => limit.current,
      managed => this.#track(this.#fetch(managed)),
    )
    this.#trust = new TrustStore({
      ca: options.ca,
      clock: options.clock,
      random: this.#random,
      trustDomain: options.trustDomain,
      settleMs: this.#rotation.settleMs,
      timeoutMs: this.#issuance.timeoutMs,
      retry: this.#retry,
      record: (name, event) => this.record(name, event),
      onRootsMoved: (trustDomain, learned) => this.#followRoots(trustDomain, learned),
    })
    this.#caChanges = options.ca.subscribe?.(change => this.#onCAChange(change))
  }

  /** Starts to hold a certificate for `identity`. Adding it again changes nothing, but `onDemand` makes it urgent. */
  add(identity: SpiffeId, options: { readonly tokenFile?: string; readonly onDemand?: boolean } = {}): void {
    const urgency = options.onDemand ? 'on-demand' : 'first'
    const present = this.#identities.get(identity)
    if (present) {
      if (present.activity.kind === 'queued') this.#queue.push(present, urgency)
      return
    }
    const managed: Managed = {
      identity,
      tokenFile: options.tokenFile,
      addedAt: this.#clock.now(),
      phase: phaseOf(identity),
      served: new ServedCertificate(this.#clock, change => this.#onServed(managed, change)),
      activity: { kind: 'new' },
      failures: 0,
      lastSuccessAt: undefined,
      lastFailure: undefined,
    }
    this.#identities.set(identity, managed)
    this.#enqueue(managed, urgency)
  }

  /** Lets go of an identity: a request in flight is aborted, its key wiped, its subscribers told. */
  forget(identity: SpiffeId): void {
    const managed = this.#identities.get(identity)
    if (!managed) return
    const { activity } = managed
    this.#become(managed, { kind: 'forgotten' })
    if (activity.kind === 'fetching') activity.controller.abort(new Error(`${identity} was forgotten`))
    this.#queue.delete(managed)
    this.#identities.delete(identity)
    managed.served[Symbol.dispose]()
    this.record(identity, { kind: 'withdrawn', reason: 'forgotten' })
    this.#ledger.release(identity)
    this.#tell(identity, undefined)
  }

  knows(name: SecretName): boolean {
    if (name.kind === 'identity') return this.#identities.has(name.identity)
    return name.trustDomain === this.trustDomain || this.#trust.bundle(name.trustDomain) !== undefined
  }

  identities(): Iterable<SpiffeId> {
    return this.#identities.keys()
  }

  /** The newest version that may be used now, or `undefined` while there is none. */
  current(name: SecretName): SecretItem | undefined {
    if (name.kind === 'bundle') return this.#trust.bundle(name.trustDomain)?.secret
    return this.#identities.get(name.identity)?.served.current?.secret
  }

  /**
   * Calls `listener` with each new version, and with `undefined` when it is withdrawn; never inside this call. The
   * item is to be used at once: its key is wiped when the next version comes. A name that is not known yet calls once it
   * is.
   */
  subscribe(name: SecretName, listener: Listener): Disposable {
    if (name.kind === 'bundle') return this.#trust.subscribe(name.trustDomain, listener)
    const { identity } = name
    const listeners = this.#listeners.get(identity) ?? new Set()
    this.#listeners.set(identity, listeners.add(listener))
    const managed = this.#identities.get(identity)
    if (managed?.activity.kind === 'queued' && !managed.served.current) this.#queue.push(managed, 'on-demand')
    return {
      [Symbol.dispose]: () => {
        listeners.delete(listener)
        if (listeners.size === 0 && this.#listeners.get(identity) === listeners) this.#listeners.delete(identity)
      },
    }
  }

  /** The newest version, waiting for the first one. Rejects with the signal's reason, or when `name` is not known. */
  async get(name: SecretName, { signal }: { readonly signal: AbortSignal }): Promise<SecretItem> {
    signal.throwIfAborted()
    if (!this.knows(name)) throw new TypeError(`Cannot get ${JSON.stringify(name)}: it was not added`)
    const present = this.current(name)
    if (present) return present
    const { promise, resolve, reject } = Promise.withResolvers<SecretItem>()
    using _subscription = this.subscribe(name, item => {
      if (item) resolve(item)
      else if (!this.knows(name)) reject(new Error(`${JSON.stringify(name)} was forgotten`))
    })
    return await untilAborted(promise, signal)
  }

  /** Adds to the ledger of a name: `spiffe://…` of an identity or a trust domain, or an unknown name as it was asked. */
  record(name: string, event: LedgerEvent): void {
    const entry = { time: this.#clock.now(), event }
    this.#ledger.record(name, entry, this.#holds(name))
    this.#observe?.(name, entry)
  }

  #holds(name: string): boolean {
    return (this.#identities as ReadonlyMap<string, Managed>).has(name) || name === `spiffe://${this.trustDomain}`
  }

  /** The ledger of a name, oldest first. */
  explain(name: string): readonly LedgerEntry[] {
    return this.#ledger.entries(name)
  }

  /** Every identity, sorted. */
  entries(): readonly IdentityEntry[] {
    return [...this.#identities.values()].map(toEntry).sort((a, b) => (a.identity < b.identity ? -1 : 1))
  }

  bundles(): readonly BundleEntry[] {
    return [...this.#trust.bundles()].flatMap(bundle =>
      bundle.secret ? [{ trustDomain: bundle.trustDomain, secret: bundle.secret, roots: bundle.anchors() }] : [],
    )
  }

  /** Forgets everything; resolves when no request is in flight. The CA client stays open: its creator closes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#caChanges?.[Symbol.dispose]()
    for (const identity of [...this.#identities.keys()]) this.forget(identity)
    this.#trust[Symbol.dispose]()
    this.#pause?.[Symbol.dispose]()
    await Promise.all(this.#inFlight)
  }

  #become(managed: Managed, activity: Activity): void {
    if (managed.activity.kind === 'waiting') managed.activity.timer[Symbol.dispose]()
    managed.activity = activity
  }

  #wait(managed: Managed, due: number, reason: Reason): void {
    const timer = this.#clock.at(due, () =>
      this.#enqueue(managed, managed.served.current ? 'renewal' : 'first', reason),
    )
    this.#become(managed, { kind: 'waiting', due, timer })
  }

  #enqueue(managed: Managed, urgency: Urgency, reason: Reason = urgency): void {
    this.#become(managed, { kind: 'queued', reason })
    this.#queue.push(managed, urgency, managed.served.current?.secret.notAfter)
  }

  async #track(fetch: Promise<void>): Promise<void> {
    this.#inFlight.add(fetch)
    await fetch
    this.#inFlight.delete(fetch)
  }

  async #fetch(managed: Managed): Promise<void> {
    if (managed.activity.kind !== 'queued') return
    const { identity, tokenFile } = managed
    const controller = new AbortController()
    const startedAt = this.#clock.now()
    this.record(identity, { kind: 'csr-sent', reason: managed.activity.reason })
    this.#become(managed, { kind: 'fetching', controller })
    // Only the request that is still the current one may change anything: forgetting wins over a late answer.
    const isCurrent = () => managed.activity.kind === 'fetching' && managed.activity.controller === controller
    try {
      const issued = await issue(this.#issuance, {
        identity,
        ...(tokenFile === undefined ? {} : { tokenFile }),
        trustStore: this.#trust,
        controller,
      })
      this.#limit.answered(startedAt, this.#clock.now())
      if (isCurrent()) this.#accept(managed, issued, startedAt)
      else issued.release()
    } catch (error) {
      if (!isCurrent()) return
      const failure = error instanceof CAError ? error : new CAError('unavailable', String(error), { cause: error })
      this.#adapt(failure, startedAt)
      this.#fail(managed, failure)
    }
  }

  #accept(managed: Managed, issued: Issued, startedAt: number): void {
    const now = this.#clock.now()
    const { secret, root } = issued
    const inUse = managed.served.current?.secret
    // Old before new only while the old one lives; without one, a root that not every peer knows yet is the lesser evil.
    const settled = inUse ? Math.min(root.settlesAt, inUse.notAfter) : now
    const from = Math.max(secret.notBefore, settled)
    const usableFrom = Math.max(now, secret.notBefore)
    const planned = renewalTime(
      { usableFrom, notAfter: secret.notAfter },
      this.#rotation,
      managed.phase,
      this.#random(),
    )
    const renewAt = this.#isOutrun(managed, issued, startedAt) ? Math.min(planned, this.#followTime(managed)) : planned

    managed.failures = 0
    managed.lastSuccessAt = now
    const { serialNumber, notAfter } = secret
    this.record(managed.identity, { kind: 'issued', serialNumber, notAfter, renewAt })
    if (from > now) {
      const reason = secret.notBefore > now ? 'not-yet-valid' : 'root-settling'
      this.record(managed.identity, { kind: 'held', until: from, reason })
    }
    this.#wait(managed, Math.max(renewAt, now + MIN_RENEWAL_INTERVAL_MS), 'renewal')
    managed.served.offer(issued, from)
  }

  /** What a failure says of the CA itself, for all that wait for it. */
  #adapt({ code, retryAfterMs }: CAError, startedAt: number): void {
    const now = this.#clock.now()
    if (code === 'rate-limited' || code === 'timeout' || code === 'unavailable') this.#limit.overloaded(startedAt, now)
    if (code !== 'rate-limited' || retryAfterMs === undefined) return
    this.#queue.pause()
    this.#pause?.[Symbol.dispose]()
    this.#pause = this.#clock.at(now + retryAfterMs, () => this.#queue.resume())
  }

  #fail(managed: Managed, failure: CAError): void {
    const now = this.#clock.now()
    const failures = failure.retryable ? ++managed.failures : Number.MAX_SAFE_INTEGER
    const delay = Math.max(retryDelay(failures, this.#retry, this.#random()), failure.retryAfterMs ?? 0)
    const end = managed.served.current?.secret.notAfter ?? Number.POSITIVE_INFINITY
    const due = Math.min(now + delay, Math.max(end, now + this.#retry.minMs))
    const { code, message } = failure
    managed.lastFailure = { at: now, code, message }
    this.record(managed.identity, { kind: 'ca-error', code, message })
    this.record(managed.identity, { kind: 'retry-planned', at: due })
    this.#wait(managed, due, managed.served.current ? 'renewal' : 'first')
  }

  #onServed(managed: Managed, change: 'served' | 'expired'): void {
    if (change === 'expired') this.record(managed.identity, { kind: 'withdrawn', reason: 'expired' })
    this.#tell(managed.identity, managed.served.current?.secret)
  }

  #tell(identity: SpiffeId, item: SecretItem | undefined): void {
    for (const listener of this.#listeners.get(identity) ?? []) listener(item)
  }

  #onCAChange(change: CAChange): void {
    if (change.kind === 'roots') {
      void this.#track(this.#trust.refresh())
      return
    }
    for (const identity of change.identities ?? []) {
      const managed = this.#identities.get(identity)
      if (managed?.activity.kind === 'waiting') this.#enqueue(managed, 'renewal')
    }
    if (change.identities) return
    for (const managed of this.#identities.values()) {
      if (managed.activity.kind === 'waiting') this.#renewBy(managed, this.#followTime(managed), 'renewal')
    }
  }

  /** Leaves follow their roots, spread out, after the settle time. */
  #followRoots(trustDomain: string, { added, givenUp }: Learned): void {
    const newRoots = new Set(added.map(anchor => anchor.fingerprint))
    for (const managed of this.#identities.values()) {
      const root = managed.served.current?.root
      if (!root || trustDomainOf(managed.identity) !== trustDomain || managed.activity.kind !== 'waiting') continue
      if (newRoots.has(root.fingerprint) || (newRoots.size === 0 && !givenUp.includes(root.fingerprint))) continue
      this.#renewBy(managed, this.#followTime(managed), 'new-root')
    }
  }

  /** Brings a planned renewal forward; one that is due earlier anyway stays so. */
  #renewBy(managed: Managed, due: number, reason: Reason): void {
    if (managed.activity.kind === 'waiting' && due < managed.activity.due) this.#wait(managed, due, reason)
  }

  /** Whether the roots moved on while this certificate was under way. */
  #isOutrun({ identity }: Managed, { root }: Issued, startedAt: number): boolean {
    const bundle = this.#trust.bundle(trustDomainOf(identity))
    if (!bundle || bundle.isGivenUp(root.fingerprint)) return true
    return bundle.anchors().some(anchor => anchor.learnedAt > startedAt && anchor.learnedAt > root.learnedAt)
  }

  #followTime({ phase, served }: Managed): number {
    const now = this.#clock.now()
    const { settleMs } = this.#rotation
    const left = (served.current?.secret.notAfter ?? now) - now
    return now + settleMs + phase * Math.max(settleMs, Math.min(left * 0.1, 600_000))
  }
}
