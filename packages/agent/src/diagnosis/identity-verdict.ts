/** The one judgement of an identity: what is wrong, the cause, and whether readiness depends on it. */
import type { FailureCode, IdentityEntry } from '@livery/core'
import type { Effect, ReadinessMode, Severity } from './problem.ts'
import { remainingLife } from './remaining-life.ts'

/** Why identities fail: the CA as a whole is down, or a failure's code; `local` marks a cause on this node. */
type FailureCause = 'ca-down' | FailureCode | `local ${FailureCode}`

/** `first-certificate` is on the way; `late`: a renewal is overdue without a failure; `clients-refuse`: the pre-flight failed. */
export type IdentityCause = FailureCause | 'first-certificate' | 'no-answer' | 'late' | 'clients-refuse'

/** How long a new identity may lack a certificate while another has one, or a renewal may fail, before that counts. */
export const GRACE_MS = 60_000

/** Certificates are renewed with about half of their life left. */
const LATE = 0.25
const VERY_LATE = 0.1

/** The moment, and the CA as a whole then. */
export interface Moment {
  /** Milliseconds since the epoch. */
  readonly now: number
  /** When the CA as a whole began not to answer; `undefined` while it answers. */
  readonly downSince: number | undefined
}

export interface Verdict {
  readonly effect: Effect
  readonly cause: IdentityCause
  readonly severity: Severity
  /** Set while little of the certificate's life is left. */
  readonly late?: Severity | undefined
  readonly unready?: ReadinessMode
  /** The text, including the failure's. */
  readonly reason: string
}

/** Empty for an identity that is well, needs no certificate, or is being removed. */
export function judge(entry: IdentityEntry, moment: Moment): readonly Verdict[] {
  if (entry.hold === 'removed') return []
  const verdict = hasValidCertificate(entry, moment.now) ? judgeRenewal(entry, moment) : judgeMissing(entry, moment)
  const { preflight } = entry
  if (!preflight) return verdict ? [verdict] : WELL
  const refused = {
    effect: 'refused',
    cause: 'clients-refuse',
    severity: 'warning',
    reason: preflightWarning(preflight),
  } as const
  return verdict ? [verdict, refused] : [refused]
}

/** The first thing that is wrong, if any; a first certificate that is on the way is not. */
export function troubleOf(entry: IdentityEntry, moment: Moment): Verdict | undefined {
  return judge(entry, moment).find(({ severity }) => severity !== 'pending')
}

const WELL: readonly Verdict[] = []

/** Why its attempts fail now; `undefined` while they do not. */
export function failureCause(
  { lastFailure, failingSince }: IdentityEntry,
  { downSince }: Moment,
): FailureCause | undefined {
  if (!lastFailure || failingSince === undefined) return undefined
  const { code, local, at } = lastFailure
  if (code === 'revoked') return code
  if (local) return `local ${code}`
  // The CA is asked for nothing while it is away, so earlier failures wait for it too.
  return downSince !== undefined && (isAbsence(code) || at < downSince) ? 'ca-down' : code
}

export function isAbsence(code: string): boolean {
  return code === 'unavailable' || code === 'timeout'
}

export function hasValidCertificate({ secret }: IdentityEntry, now: number): boolean {
  return secret !== undefined && secret.notBefore <= now && now < secret.notAfter
}

/** A name on demand that the CA never issued for: otherwise any caller could make the agent unready. */
export function isMereWish({ hold, lastSuccessAt }: IdentityEntry): boolean {
  return hold === 'on-demand' && lastSuccessAt === undefined
}

/** The remaining part of its certificate's life, from 1 to 0. */
export function lifeLeft({ secret, receivedAt }: IdentityEntry, now: number): number {
  return secret ? remainingLife(secret, receivedAt, now) : 0
}

function judgeMissing(entry: IdentityEntry, moment: Moment): Verdict | undefined {
  const { state, addedAt, lastFailure } = entry
  if (state === 'idle') return undefined
  const isYoung = moment.now - addedAt < GRACE_MS
  const effect = state === 'expired' ? 'expired' : 'missing'
  const waits = moment.downSince === undefined ? (isYoung ? 'first-certificate' : 'no-answer') : 'ca-down'
  const cause = failureCause(entry, moment) ?? waits
  const severity = cause === 'first-certificate' ? 'pending' : 'critical'
  const isForgiven = isYoung || lastFailure !== undefined || isMereWish(entry)
  return { effect, cause, severity, unready: isForgiven ? 'strict' : 'default', reason: whyMissing(entry, cause) }
}

function whyMissing(entry: IdentityEntry, cause: IdentityCause): string {
  if (entry.failingSince !== undefined) return failureText(entry, cause)
  if (cause === 'ca-down') return 'the CA does not answer'
  return cause === 'first-certificate' ? 'its first certificate is on the way' : 'no certificate after its first minute'
}

function judgeRenewal(entry: IdentityEntry, moment: Moment): Verdict | undefined {
  const { failingSince } = entry
  const cause = failureCause(entry, moment)
  const late = latenessOf(entry, moment)
  if (cause !== undefined) {
    const effect = cause === 'revoked' ? 'revoked' : 'not-renewed'
    // An identity that waits for the first CA by plan is ready until it is late.
    const isTolerated = entry.lastFailure?.deferred !== undefined && !late
    const counts = failingSince !== undefined && moment.now - failingSince >= GRACE_MS && !isTolerated
    const severity = cause === 'revoked' ? 'critical' : (late ?? 'warning')
    return { effect, cause, severity, late, ...(counts && { unready: 'strict' }), reason: failureText(entry, cause) }
  }
  if (!late || (late === 'warning' && isOnPlan(entry, moment))) return undefined
  const reason = 'less than a quarter of its life is left, and no attempt has failed'
  return moment.downSince === undefined
    ? { effect: 'late', cause: 'late', severity: late, late, reason }
    : { effect: 'not-renewed', cause: 'ca-down', severity: late, late, reason: 'the CA does not answer' }
}

function latenessOf(entry: IdentityEntry, { now }: Moment): Severity | undefined {
  const left = lifeLeft(entry, now)
  if (left >= LATE || entry.state === 'idle') return undefined
  return left < VERY_LATE ? 'critical' : 'warning'
}

/** A high `rotation.ratio` leaves little life by then. While a newer certificate is held back, `renewAt` is that one's. */
function isOnPlan({ state, renewAt = 0, receivedAt, lastSuccessAt }: IdentityEntry, { now }: Moment): boolean {
  return state === 'available' && renewAt > now && receivedAt === lastSuccessAt
}

/** During an outage an earlier failure is no longer the reason for a missing certificate. */
function failureText({ lastFailure }: IdentityEntry, cause: IdentityCause): string {
  if (!lastFailure) return ''
  const { code, message, local } = lastFailure
  if (local) return `this node cannot ask the CA (${code}): ${message}`
  if (cause === 'ca-down' && !isAbsence(code))
    return `the CA does not answer; before the outage it failed (${code}): ${message}`
  return code === 'revoked' ? `revoked: ${message}` : `the CA fails (${code}): ${message}`
}

export function preflightWarning({ reason, isServed }: NonNullable<IdentityEntry['preflight']>): string {
  const which = isServed ? 'clients would refuse it' : 'the next one is withheld, since clients would refuse it'
  return `preflight-failed: ${which}: ${reason}`
}
