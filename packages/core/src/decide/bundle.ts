/** The lifecycle of a bundle's roots: published, kept for the next process, removed once nothing needs them. */

import type { RootPhase, TrustAnchor } from '../contract/trust-anchor.ts'
import type { Issued } from '../state/identity.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import { reportRefused } from './preflight.ts'
import { report, type Step } from './step.ts'

/** Sends its current roots to all watchers. */
export function publish(step: Step, bundle: TrustBundle): void {
  const { secret, name, trustDomain, owner } = bundle
  if (!secret) return
  bundle.expiresAt = bundle.roots.nextExpiry(step.now)
  armBundle(step, bundle)
  const anchors = bundle.anchors()
  report(step, name, { kind: 'roots-changed', version: secret.version, roots: anchors.length })
  const crl = owner ? undefined : step.state.crls.of(trustDomain).describe(anchors)
  if (crl) report(step, name, crl)
  step.actions.push({ kind: 'publish', bundle })
  reportRefused(step, bundle)
}

/** Call after a time of the bundle changed: it is looked at then. */
export function armBundle({ state }: Step, bundle: TrustBundle): void {
  state.bundleWakes.put(bundle, bundle.nextAt)
}

/** Keeps the roots of the agent's own trust domain, each with its phase, for the next process. */
export function storeRoots({ state, actions }: Step, bundle: TrustBundle): void {
  if (bundle === state.bundles.get(state.trustDomain)) actions.push({ kind: 'storeRoots', bundle })
}

export function reportPhase(
  step: Step,
  bundle: TrustBundle,
  fingerprint: string,
  phase: RootPhase | 'removed',
  reason: string,
): void {
  report(step, bundle.name, { kind: 'root-phase', fingerprint, phase, reason })
  phaseChanged(step, bundle)
}

/** A root of the bundle has another phase. */
export function phaseChanged(step: Step, bundle: TrustBundle): void {
  storeRoots(step, bundle)
  planRemoval(step, bundle)
}

/** Call when a root was given up or a leaf under it replaced: it is removed when its time has come, after the settle time. */
export function planRemoval(step: Step, bundle: TrustBundle): void {
  const { policy, now } = step
  if (!bundle.secret) return
  const settleMs = bundle.owner ? policy.rotation.ownSettleMs : policy.rotation.settleMs
  const at = Math.max(bundle.roots.nextUnneededAt(now + settleMs), now)
  if (at >= bundle.pruneAt) return
  bundle.pruneAt = at
  armBundle(step, bundle)
}

/** Removes roots whose time has come. */
export function removeDue(step: Step, bundle: TrustBundle): void {
  const { now } = step
  const isPlanned = bundle.pruneAt <= now
  if (!isPlanned && bundle.expiresAt > now) return
  if (isPlanned) bundle.pruneAt = Number.POSITIVE_INFINITY
  removed(step, bundle, bundle.prune(now), 'nothing needs it')
  bundle.expiresAt = bundle.roots.nextExpiry(now)
  if (isPlanned) planRemoval(step, bundle)
}

/** These roots have left the bundle, for `reason`. */
export function removed(step: Step, bundle: TrustBundle, roots: readonly TrustAnchor[], reason: string): void {
  if (roots.length === 0) return
  publish(step, bundle)
  for (const { fingerprint } of roots) reportPhase(step, bundle, fingerprint, 'removed', reason)
}

/** The leaf will not be served again: wipes its key, and its root may leave. */
export function release(step: Step, { secret, bundle, root }: Issued): void {
  step.actions.push({ kind: 'wipe', key: secret.privateKey })
  bundle.roots.unlease(root.fingerprint)
  planRemoval(step, bundle)
}

/** The bundle will not be used again. */
export function closeBundle({ state, actions }: Step, bundle: TrustBundle): void {
  if (!state.bundles.delete(bundle)) return
  state.bundleWakes.delete(bundle)
  bundle.clear()
  actions.push({ kind: 'publish', bundle })
}
