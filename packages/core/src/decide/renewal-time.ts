/** When to renew and when to try again: pure arithmetic, with time and chance as arguments. */
import { hash } from 'node:crypto'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

/** Two renewals of one identity are at least this far apart, whatever lifetime a CA gives: no hot loop. */
export const MIN_RENEWAL_INTERVAL_MS = 1_000

/** A failed renewal is retried after this share of the remaining life at the latest, so each wait is shorter. */
const LATEST_RETRY = 0.5

/** The share of its lifetime after which a certificate that has a replacement is replaced at the latest. */
export const LATEST_CHANGE = 0.9

/** How much of the slot of a renewal is drawn again each time; the rest is the identity's own, which is stable. */
const DRAWN_SHARE = 0.1

export interface RotationPolicy {
  /** Fraction of the remaining lifetime after which to renew, 0 to 1. */
  readonly ratio: number
  /** Half-width of the window around `ratio`, as a fraction of the lifetime. */
  readonly jitter: number
  /** The CA outage that a certificate outlives, milliseconds: its renewal is planned while this much is left. Absent: `ratio` alone decides. */
  readonly surviveMs?: number
}

/** A `surviveMs` that would renew a certificate before this share of its life is ignored: the requests would never end. */
const SOONEST_RENEWAL = 0.1

/** Whether a certificate with this lifetime can be renewed `surviveMs` before its end. */
export function canOutlive(lifetimeMs: number, surviveMs: number): boolean {
  return surviveMs <= lifetimeMs * (1 - SOONEST_RENEWAL)
}

/**
 * Where in its window a renewal is planned, in [0, 1). The identity's own slot spreads a node's renewals evenly over the window,
 * though all were issued in one second; a little chance moves each renewal within it.
 */
export function renewalSlot(slot: number, random: number): number {
  return (slot + DRAWN_SHARE * random) % 1
}

/**
 * The time to renew a certificate: a fraction of its remaining life at arrival. CAs back-date notBefore by minutes,
 * so a short-lived certificate would otherwise be due at once.
 */
export function renewalTime(
  certificate: { readonly usableFrom: number; readonly notAfter: number },
  policy: RotationPolicy,
  slot: number,
): number {
  const lifetime = Math.max(certificate.notAfter - certificate.usableFrom, 0)
  const fraction = Math.min(Math.max(policy.ratio + policy.jitter * (2 * slot - 1), 0), 1)
  const promised = promisedFraction(lifetime, policy, slot)
  return certificate.usableFrom + Math.max(lifetime * Math.min(fraction, promised), MIN_RENEWAL_INTERVAL_MS)
}

/** The window is as wide as the one around the ratio, and ends when `surviveMs` is left; 1 without `surviveMs`. */
function promisedFraction(lifetime: number, { jitter, surviveMs }: RotationPolicy, slot: number): number {
  if (surviveMs === undefined || !canOutlive(lifetime, surviveMs)) return 1
  const latest = 1 - surviveMs / lifetime
  return latest - Math.min(2 * jitter, latest / 2) * (1 - slot)
}

/**
 * When a failed request is tried again: after `delay`; with a certificate, after half of its remaining life at the
 * latest, so that one long backoff does not cost it; never sooner than after `minMs`.
 */
export function retryTime(
  { now, notAfter }: { readonly now: number; readonly notAfter: number | undefined },
  delay: number,
  minMs: number,
): number {
  const latest = notAfter === undefined ? delay : Math.max((notAfter - now) * LATEST_RETRY, minMs)
  return now + Math.min(delay, latest)
}

/** When the last tenth of a certificate's life begins. */
export function lastTenth(receivedAt: number, notAfter: number): number {
  return receivedAt + (notAfter - receivedAt) * LATEST_CHANGE
}

/**
 * The latest time at which a replacement that waits for its root to settle is served: peers whose clocks are ahead must not
 * meet an expired one. A second replacement does not postpone it; a late one waits for nine tenths of the remaining life.
 */
export function latestChange(receivedAt: number, notAfter: number, now: number): number {
  const latest = lastTenth(receivedAt, notAfter)
  return now < latest ? latest : Math.max(now, lastTenth(now, notAfter))
}

/** A stable number in [0, 1) for an identity: its place among a node's renewals. */
export function slotOf(identity: SpiffeId): number {
  return hash('sha256', identity, 'buffer').readUInt32BE(0) / 2 ** 32
}

/** Requests that fell due together are spread over this share of the certificate's remaining life, up to a maximum. */
const SPREAD_SHARE = 0.1
const SPREAD_MOST_MS = 600_000

/** The remaining life of a certificate at `now`. */
export interface Remaining {
  readonly now: number
  readonly notAfter: number
}

function spreadOf({ now, notAfter }: Remaining, mostMs = SPREAD_MOST_MS): number {
  return Math.min(Math.max(notAfter - now, 0) * SPREAD_SHARE, mostMs)
}

/**
 * When to make a request that fell due together with others (while nothing ran, or as leaves follow a root): `share`, in
 * [0, 1), of a part of the certificate's remaining life, at most ten minutes.
 */
export function spreadTime(remaining: Remaining, share: number): number {
  return remaining.now + share * spreadOf(remaining)
}

/**
 * When an identity that failed in an outage of the CA and still has its certificate is renewed: spread over a part of
 * the remaining life, at most ten seconds; identities in use go in the first half.
 */
export function askAgainTime(remaining: Remaining, slot: number, isUsed: boolean): number {
  return remaining.now + ((isUsed ? slot : 1 + slot) / 2) * spreadOf(remaining, 10_000)
}

/** When a leaf follows a change at the CA: after the settle time, spread over a part of its remaining life, at most ten minutes. */
export function followTime(remaining: Remaining, settleMs: number, slot: number): number {
  return remaining.now + settleMs + slot * Math.max(settleMs, spreadOf(remaining))
}
