/** When the certificate of an identity follows another wish for it. */

import { type CertificateWish, wishText } from '../contract/certificate-wish.ts'
import { type Identity, usable } from '../state/identity.ts'
import { bringForward, firstReason, remainingOf } from './plan.ts'
import { MIN_RENEWAL_INTERVAL_MS, spreadTime } from './renewal-time.ts'
import type { Step } from './step.ts'

/** A reload can change every wish: requests leave one by one at this distance. */
const PACE_MS = 50

/** Another wish is followed by another certificate. */
export function changeWish(step: Step, identity: Identity, wish: CertificateWish): void {
  const before = wishText(identity.wish)
  identity.wish = wish
  if (before === wishText(wish)) return
  identity.loweredTtlSeconds = undefined
  followWish(step, identity, before)
}

/** `asked`: the wish text of its last certificate. The delay bounds the cost: however often a wish changes, one request a second. */
export function followWish(step: Step, identity: Identity, asked: string): void {
  if (asked === wishText(identity.wish)) return
  const { state, now } = step
  const soonest = now + MIN_RENEWAL_INTERVAL_MS
  if (!usable(identity, now)) {
    bringForward(step, identity, soonest, firstReason(step, identity))
    return
  }
  const turn = Math.max(soonest, state.nextWishAt)
  const latest = MIN_RENEWAL_INTERVAL_MS + spreadTime(remainingOf(step, identity), 1)
  if (bringForward(step, identity, Math.min(turn, latest), 'new-wish')) state.nextWishAt = turn + PACE_MS
}
