/** Pre-flight: serves no leaf that clients would refuse with their current roots, while there is a better one. */

import { type Identity, kindOf, usable, worthKeeping } from '../state/identity.ts'
import { membersOf } from '../state/state.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import { lastTenth } from './renewal-time.ts'
import { report, type Step } from './step.ts'

/** Kinds of leaves that are checked when the roots change: a CA has few, and the event loop waits. */
const MAX_CHECKED = 16

/**
 * Whether a certificate that clients would refuse for `reason` is served anyway: the one in use is missing, about to end,
 * or would be refused as well. Reports it.
 */
export function servesRefused(step: Step, identity: Identity, reason: string): boolean {
  const isServed = !hasBetter(step, identity)
  if (!isServed) identity.withheld = reason
  report(step, identity.id, { kind: 'preflight-failed', reason, isServed })
  return isServed
}

/** Reports the leaves in use that clients refuse with these roots, one of each kind. */
export function reportRefused(step: Step, bundle: TrustBundle): void {
  const seen = new Set<string>()
  for (const identity of membersOf(step.state, bundle)) {
    const current = usable(identity, step.now)
    if (seen.size === MAX_CHECKED) return
    if (!current || current.clientRefusal !== undefined) continue
    const kind = kindOf(current)
    if (seen.has(kind)) continue
    seen.add(kind)
    const refusal = step.policy.refusalOf(current, identity.id, step.now)
    if (refusal === undefined) continue
    const reason = `${identity.id}, and others of its issuer and key: ${refusal}`
    report(step, bundle.name, { kind: 'preflight-failed', reason, isServed: true })
  }
}

function hasBetter({ policy, now }: Step, identity: Identity): boolean {
  const inUse = worthKeeping(identity, now)
  if (!inUse) return false
  const isEnding = now >= lastTenth(inUse.receivedAt, inUse.secret.notAfter)
  return !isEnding && policy.refusalOf(inUse, identity.id, now) === undefined
}
