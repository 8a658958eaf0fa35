/** What an identity's certificate is wished to carry: a new one is asked for soon after that has changed. */

import { type CertificateWish, wishText } from '../contract/certificate-wish.ts'
import { type Identity, usable } from '../state/identity.ts'
import { bringForward, firstReason } from './plan.ts'
import { MIN_RENEWAL_INTERVAL_MS } from './renewal-time.ts'
import type { Step } from './step.ts'

export function changeWish(step: Step, identity: Identity, wish: CertificateWish): void {
  const before = wishText(identity.wish)
  identity.wish = wish
  if (before === wishText(wish)) return
  step.state.ttl.forget(identity.id)
  followWish(step, identity, before)
}

/** `asked`: the text of the wish by which its last certificate was asked for. Later than at once: however often a wish changes, it costs one request a second. */
export function followWish(step: Step, identity: Identity, asked: string): void {
  if (asked === wishText(identity.wish)) return
  const reason = usable(identity, step.now) ? 'renewal' : firstReason(step, identity)
  bringForward(step, identity, step.now + MIN_RENEWAL_INTERVAL_MS, reason)
}
