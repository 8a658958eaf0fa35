/** One identity in the SecretManager: what it has, why it is held, and what is being done for it. */

import type { CAError } from '../contract/ca-client.ts'
import { type FailureKind, failureKind, isAbsence } from '../contract/ca-failure.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import type { IdentityEntry } from './identity-entry.ts'
import type { Issued } from './issued-certificate.ts'
import { ServedCertificate, type ServedChange } from './served-certificate.ts'

/** Somebody waits; nobody has it yet; it is still valid; it has failed where others need not have. */
export type Urgency = 'on-demand' | 'first' | 'renewal' | 'retry'

export type Reason = Extract<SecretEvent, { kind: 'csr-sent' }>['reason']

/** Why an identity is held: it was added, somebody requested it, or it was removed a short while ago. */
export type Hold =
  | { readonly kind: 'pinned' }
  | { readonly kind: 'on-demand' }
  | { readonly kind: 'removed'; readonly timer: Disposable }

/** The current work for an identity, beside serving its certificate. */
export type Activity =
  | { readonly kind: 'new' }
  /** `urgency`: of the request, if nothing is found. `isOutdated`: the CA has since reported a newer one. */
  | { readonly kind: 'restoring'; readonly urgency: RestoreUrgency; readonly isOutdated: boolean }
  | { readonly kind: 'waiting'; readonly due: number; readonly timer: Disposable }
  | { readonly kind: 'queued'; readonly reason: Reason }
  | { readonly kind: 'fetching'; readonly controller: AbortController; readonly since: number }
  | { readonly kind: 'idle' }
  | { readonly kind: 'forgotten' }

export type RestoreUrgency = Exclude<Urgency, 'retry'>

export interface ManagedIdentityOptions {
  readonly clock: Clock
  /** Its stable share of chance, in [0, 1): where in a window of time its turn is. */
  readonly phase: number
  readonly hold: 'pinned' | 'on-demand'
  readonly tokenFile: string | undefined
  /** Called after what it serves has changed. */
  readonly onServed: (managed: ManagedIdentity, change: ServedChange) => void
}

/** Of refusals. One is as likely a cause that came back after a short while. */
const CONTRADICTIONS_TO_BE_ALONE = 2

/** Only its own methods change it. */
export class ManagedIdentity {
  readonly identity: SpiffeId
  readonly addedAt: number
  readonly phase: number
  readonly served: ServedCertificate
  readonly #clock: Clock
  #tokenFile: string | undefined
  #hold: Hold
  #activity: Activity = { kind: 'new' }
  #failures = 0
  #lastSuccessAt: number | undefined
  #lastFailure: IdentityEntry['lastFailure']
  #failingSince: number | undefined
  #failureKind: FailureKind | undefined
  #hasFailedAlone = false
  #contradictions = 0
  #wokenAt = Number.NEGATIVE_INFINITY
  #withheld: string | undefined
  /** `version`: of the certificate that was revoked; another may have replaced it. */
  #revoked: { readonly version: string; readonly since: number; readonly reason: string } | undefined

  constructor(identity: SpiffeId, { clock, phase, hold, tokenFile, onServed }: ManagedIdentityOptions) {
    this.identity = identity
    this.addedAt = clock.now()
    this.phase = phase
    this.served = new ServedCertificate(clock, change => onServed(this, change))
    this.#clock = clock
    this.#tokenFile = tokenFile
    this.#hold = { kind: hold }
  }

  get tokenFile(): string | undefined {
    return this.#tokenFile
  }

  get hold(): Hold {
    return this.#hold
  }

  get activity(): Activity {
    return this.#activity
  }

  get lastSuccessAt(): number | undefined {
    return this.#lastSuccessAt
  }

  get lastFailure(): IdentityEntry['lastFailure'] {
    return this.#lastFailure
  }

  /** Whether its last attempt failed. */
  get isFailing(): boolean {
    return this.#failingSince !== undefined
  }

  /** How its last attempt failed; `undefined` unless it did. */
  get failingWith(): FailureKind | undefined {
    return this.isFailing ? this.#failureKind : undefined
  }

  /** Whether it has failed, since its last success, where others need not have. */
  get hasFailedAlone(): boolean {
    return this.#hasFailedAlone
  }

  /** Whether it failed, since its last success, before and after others were answered; if it is refused, before and after others were not, twice. */
  get isAlone(): boolean {
    return this.#contradictions >= CONTRADICTIONS_TO_BE_ALONE
  }

  /** When the end of a cause that it seemed to share last ended its wait, milliseconds since the epoch. */
  get wokenAt(): number {
    return this.#wokenAt
  }

  /** The certificate in use, unless it is revoked: then any other one is better. */
  get worthKeeping(): Issued | undefined {
    return this.#revocation ? undefined : this.served.current
  }

  /** `false` if it is the one in use already. */
  useToken(tokenFile: string | undefined): boolean {
    const isNew = tokenFile !== this.#tokenFile
    this.#tokenFile = tokenFile
    return isNew
  }

  /** Holds it until it is removed; a removal is cancelled. */
  pin(): void {
    this.#setHold({ kind: 'pinned' })
  }

  /** Holds it until `until` (milliseconds since the epoch) and then calls `onEnd`. */
  unpin(until: number, onEnd: () => void): void {
    this.#setHold({ kind: 'removed', timer: this.#clock.at(until, onEnd) })
  }

  /** The store is read for it. */
  startRestoring(urgency: RestoreUrgency): void {
    this.#become({ kind: 'restoring', urgency, isOutdated: false })
  }

  /** Somebody waits for it while the store is read. `false` if that was known, or if the store is not read. */
  hurryRestoring(): boolean {
    const activity = this.#activity
    if (activity.kind !== 'restoring' || activity.urgency === 'on-demand') return false
    this.#activity = { ...activity, urgency: 'on-demand' }
    return true
  }

  /** The store may have an older certificate than the CA. */
  markOutdated(): void {
    if (this.#activity.kind === 'restoring') this.#activity = { ...this.#activity, isOutdated: true }
  }

  /** Calls `onDue` at `due` (milliseconds since the epoch), unless something else is done for it before. */
  wait(due: number, onDue: () => void): void {
    this.#become({ kind: 'waiting', due, timer: this.#clock.at(due, onDue) })
  }

  queue(reason: Reason): void {
    this.#become({ kind: 'queued', reason })
  }

  /** A request is sent; aborting the controller gives it up. */
  startFetching(): AbortController {
    const controller = new AbortController()
    this.#become({ kind: 'fetching', controller, since: this.#clock.now() })
    return controller
  }

  /** Whether the request of this controller is still the current one. */
  isFetching(controller: AbortController): boolean {
    return this.#activity.kind === 'fetching' && this.#activity.controller === controller
  }

  /** Nothing more is done for it; a request in flight is aborted. */
  stop(kind: 'idle' | 'forgotten'): void {
    const before = this.#activity
    this.#become({ kind })
    this.#failingSince = undefined
    if (before.kind === 'fetching') before.controller.abort(new Error(`${this.identity} is no longer wanted`))
  }

  /** It is held no longer: ends its grace period and wipes what it has. */
  release(): void {
    if (this.#hold.kind === 'removed') this.#hold.timer[Symbol.dispose]()
    this.served.clear()
  }

  /** A certificate came that clients would refuse for `reason`: it does not replace the one in use. */
  withhold(reason: string): void {
    this.#withheld = reason
  }

  /** Whether a revocation list names the certificate in use, and why. `true` if that is news. */
  setRevoked(reason: string | undefined): boolean {
    const version = this.served.current?.secret.version
    const before = this.#revocation
    this.#revoked =
      reason === undefined || version === undefined
        ? undefined
        : { version, since: before?.since ?? this.#clock.now(), reason }
    if (this.#revoked) this.served.forbidReturn()
    return this.#revoked !== undefined && before === undefined
  }

  succeeded(): void {
    this.#withheld = undefined
    this.#failures = 0
    this.#lastSuccessAt = this.#clock.now()
    this.#failingSince = undefined
    this.#hasFailedAlone = false
    this.#contradictions = 0
  }

  /** A previous process had succeeded at `receivedAt`. */
  resumed(receivedAt: number): void {
    this.#lastSuccessAt = receivedAt
  }

  failed(failure: CAError): void {
    const { code, message, local } = failure
    const at = this.#clock.now()
    this.#lastFailure = { at, code, message, ...(local && { local }) }
    this.#failingSince ??= at
    this.#failureKind = failureKind(failure)
    this.#hasFailedAlone ||= isItsOwn(failure)
  }

  /** Others fared better between its previous failure and this one. */
  contradicted(failure: CAError): void {
    this.#contradictions += isAbsence(failure) ? CONTRADICTIONS_TO_BE_ALONE : 1
    this.#hasFailedAlone = true
  }

  /** Its failures were those of a CA that was down: its next backoff is short. */
  forgetFailures(): void {
    this.#failures = 0
  }

  /** The cause that it seemed to share is gone. Unless it is alone, its failures count no more. */
  wake(): void {
    this.#wokenAt = this.#clock.now()
    if (this.isAlone) return
    this.#failures = 0
    this.#hasFailedAlone = false
  }

  /** What it failed for is gone: it begins again, as if it were new. */
  forgive(): void {
    this.#failures = 0
    this.#contradictions = 0
    this.#hasFailedAlone = false
  }

  /** How many failures in a row count against it, with this one. */
  countFailure(): number {
    return ++this.#failures
  }

  /** The identity as others see it; `nextProbeAt`: when a queue that waits for a CA that is down moves on. */
  toEntry(nextProbeAt: number | undefined): IdentityEntry {
    const { current } = this.served
    return {
      identity: this.identity,
      state: this.#state(),
      hold: this.#hold.kind,
      secret: current?.secret,
      root: current?.root,
      receivedAt: current?.source === 'bootstrap' ? undefined : current?.receivedAt,
      addedAt: this.addedAt,
      renewAt: this.#renewAt(nextProbeAt),
      lastSuccessAt: this.#lastSuccessAt,
      ...this.#failure(),
      preflight: this.#preflight(),
    }
  }

  get #revocation() {
    return this.#revoked?.version === this.served.current?.secret.version ? this.#revoked : undefined
  }

  /** That of the certificate in use comes first, whatever the CA says meanwhile. */
  #failure(): Pick<IdentityEntry, 'lastFailure' | 'failingSince'> {
    const revocation = this.#revocation
    const [lastFailure, failingSince] = [this.#lastFailure, this.#failingSince]
    if (!revocation) return { lastFailure, failingSince }
    const isNewer = failingSince !== undefined && lastFailure && lastFailure.at >= revocation.since
    const attempt = isNewer
      ? `. The last attempt to replace it failed (${lastFailure.code}): ${lastFailure.message}`
      : ''
    const message = `peers refuse the certificate in use: ${revocation.reason}${attempt}`
    return {
      lastFailure: { at: isNewer ? lastFailure.at : revocation.since, code: 'revoked', message },
      failingSince: Math.min(revocation.since, failingSince ?? revocation.since),
    }
  }

  #preflight(): IdentityEntry['preflight'] {
    const reason = this.served.current?.clientRefusal
    if (reason !== undefined) return { reason, isServed: true }
    return this.#withheld === undefined ? undefined : { reason: this.#withheld, isServed: false }
  }

  #renewAt(nextProbeAt: number | undefined): number | undefined {
    if (this.#activity.kind === 'waiting') return this.#activity.due
    return this.#activity.kind === 'queued' ? nextProbeAt : undefined
  }

  #state(): IdentityEntry['state'] {
    const { kind } = this.#activity
    if (kind === 'idle' || kind === 'forgotten') return kind
    if (this.served.hasExpired) return 'expired'
    if (this.isFailing || this.#revocation) return 'failing'
    if (!this.served.current) return 'initializing'
    return kind === 'queued' || kind === 'fetching' ? 'renewing' : 'available'
  }

  #setHold(hold: Hold): void {
    if (this.#hold.kind === 'removed') this.#hold.timer[Symbol.dispose]()
    this.#hold = hold
  }

  #become(activity: Activity): void {
    if (this.#activity.kind === 'waiting') this.#activity.timer[Symbol.dispose]()
    this.#activity = activity
  }
}

/** A CA that is away or has no room fails for all: that says nothing of an identity. */
function isItsOwn({ code, local }: CAError): boolean {
  return local || (code !== 'unavailable' && code !== 'rate-limited')
}
