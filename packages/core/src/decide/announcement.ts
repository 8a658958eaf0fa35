/** A new root is announced to all clients first, and only then leaves under it are served; an operator can stop it in its phase. */

import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { TrustBundleSecret } from '../secrets/secret-item.ts'
import type { BundleReceipt } from '../trust/bundle-receipts.ts'
import type { BundleRoot } from '../trust/bundle-root.ts'
import type { RootAction } from '../trust/rotation-status.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import { armBundle, reportPhase } from './bundle.ts'
import { rootsMoved, rootTrusted } from './rollout.ts'
import type { Step } from './step.ts'

/**
 * Call after the bundle has these roots, before it is published. An announcement ends when `settlesAt` has passed (other
 * nodes may learn of a root later) and every client that uses an older bundle has accepted one with the root. It waits
 * `ackWaitMs` for a silent client, and without limit for a client that rejects the root. It does not wait for streams
 * whose first bundle had the root, nor for streams that have rejected every bundle: they use none.
 */
export function announce(step: Step, bundle: TrustBundle, added: readonly Pick<TrustAnchor, 'fingerprint'>[]): void {
  for (const { fingerprint } of added) {
    const root = bundle.roots.get(fingerprint)
    if (root) begin(step, bundle, root, root.anchor)
  }
}

/** Streams have yet to come back after a restart, so that an announcement begins again. */
export function announceAgain(step: Step, bundle: TrustBundle, root: BundleRoot): void {
  const { policy, now } = step
  begin(step, bundle, root, { learnedAt: now, settlesAt: now + policy.rotation.settleMs })
}

/** The stream had no version of this bundle before. */
export function sent(step: Step, receipt: BundleReceipt, secret: TrustBundleSecret): void {
  for (const { anchor, announcement } of announcedIn(bundleOf(step, receipt)))
    if (!secret.has(anchor.fingerprint)) announcement.silent.add(receipt)
}

export function acknowledged(step: Step, receipt: BundleReceipt): void {
  const { accepted, rejected } = receipt
  const bundle = bundleOf(step, receipt)
  for (const root of announcedIn(bundle)) {
    const { fingerprint } = root.anchor
    const { silent, rejecting } = root.announcement
    if (accepted?.has(fingerprint)) {
      silent.delete(receipt)
      rejecting.delete(receipt)
    } else if (!accepted && rejected) {
      // It has never taken a bundle, so this one changes nothing for it.
      silent.delete(receipt)
    } else if (rejected?.bundle.has(fingerprint)) {
      silent.delete(receipt)
      if (bundle && !rejecting.has(receipt)) {
        rejecting.add(receipt)
        reportPhase(step, bundle, fingerprint, 'announcing', `${receipt.client()} rejects it: ${rejected.reason}`)
      }
    } else continue
    if (bundle) evaluate(step, bundle, root)
  }
}

export function streamClosed(step: Step, receipt: BundleReceipt): void {
  const bundle = bundleOf(step, receipt)
  for (const root of announcedIn(bundle)) {
    const wasSilent = root.announcement.silent.delete(receipt)
    if ((root.announcement.rejecting.delete(receipt) || wasSilent) && bundle) evaluate(step, bundle, root)
  }
}

/** The settle time of a root has passed, or the wait for silent clients has. */
export function lookAtAnnouncements(step: Step, bundle: TrustBundle): void {
  for (const root of announcedIn(bundle)) {
    const { announcement } = root
    if (announcement.lookAt > step.now) continue
    announcement.lookAt = announcement.waitUntil > step.now ? announcement.waitUntil : Number.POSITIVE_INFINITY
    evaluate(step, bundle, root)
  }
}

/** Carries out an operator's {@link RootAction}. */
export function changeRoot(step: Step, bundle: TrustBundle, fingerprint: string, action: RootAction): void {
  const root = bundle.roots.get(fingerprint)
  if (!root) return
  if (action === 'hold') hold(step, bundle, root)
  else if (action === 'resume') resume(step, bundle, root)
  else {
    root.announcement = undefined
    root.isHeld = false
    bundle.drop(fingerprint)
    reportPhase(step, bundle, fingerprint, 'retiring', 'an operator has dropped it')
    rootsMoved(step, bundle, { added: [], givenUp: [], revoked: [fingerprint] })
  }
}

/** It stays in its phase: no leaf under it is served, and it is not removed. */
function hold(step: Step, bundle: TrustBundle, root: BundleRoot): void {
  if (root.isHeld) return
  root.isHeld = true
  reportHeld(step, bundle, root)
}

export function reportHeld(step: Step, bundle: TrustBundle, root: BundleRoot): void {
  reportPhase(step, bundle, root.anchor.fingerprint, 'held', 'an operator holds it')
}

/** Ends a hold, and stops waiting for clients that have rejected the root. */
function resume(step: Step, bundle: TrustBundle, root: BundleRoot): void {
  const wasHeld = root.isHeld
  root.isHeld = false
  if (isAnnounced(root)) {
    root.announcement.ignoresRejections = true
    evaluate(step, bundle, root)
  } else if (wasHeld) trust(step, bundle, root, 'an operator has resumed it')
}

function begin(
  step: Step,
  bundle: TrustBundle,
  root: BundleRoot,
  { learnedAt, settlesAt }: Pick<TrustAnchor, 'learnedAt' | 'settlesAt'>,
): void {
  const { state, policy } = step
  const silent = new Set<BundleReceipt>()
  // Roots of one identity come with its certificate, and no other stream gets them.
  for (const receipt of bundle.owner ? [] : state.receipts.of(bundle.name))
    if (receipt.accepted || !receipt.rejected) silent.add(receipt)
  root.announcement = {
    settlesAt,
    waitUntil: Math.max(settlesAt, learnedAt + policy.rotation.ackWaitMs),
    silent,
    rejecting: new Set(),
    ignoresRejections: false,
    lookAt: settlesAt,
  }
  reportPhase(
    step,
    bundle,
    root.anchor.fingerprint,
    'announcing',
    silent.size === 0 ? 'every client has it' : `${count(silent.size, 'client')} must accept it first`,
  )
  armBundle(step, bundle)
}

function evaluate(step: Step, bundle: TrustBundle, root: Announced): void {
  const { settlesAt, waitUntil, silent, rejecting, ignoresRejections } = root.announcement
  if (root.isHeld || step.now < settlesAt) return
  if (rejecting.size > 0 && !ignoresRejections) return
  if (silent.size > 0 && step.now < waitUntil) return
  const reason = silent.size === 0 ? 'every client has it' : `${count(silent.size, 'client')} said nothing`
  trust(step, bundle, root, reason)
}

function trust(step: Step, bundle: TrustBundle, root: BundleRoot, reason: string): void {
  const { fingerprint } = root.anchor
  root.announcement = undefined
  reportPhase(step, bundle, fingerprint, 'trusted', reason)
  rootTrusted(step, bundle, fingerprint)
}

type Announced = BundleRoot & { readonly announcement: NonNullable<BundleRoot['announcement']> }

function isAnnounced(root: BundleRoot): root is Announced {
  return root.announcement !== undefined
}

function announcedIn(bundle: TrustBundle | undefined): readonly Announced[] {
  return bundle?.roots.values().filter(isAnnounced) ?? []
}

function bundleOf({ state }: Step, { name }: BundleReceipt): TrustBundle | undefined {
  return state.bundles.named(name)
}

function count(number: number, noun: string): string {
  return `${number} ${number === 1 ? noun : `${noun}s`}`
}
