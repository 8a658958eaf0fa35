/** A new root is announced to all clients first, and only then leaves under it are served; an operator can stop it in its phase. */

import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { TrustBundleSecret } from '../secrets/secret-item.ts'
import type { BundleReceipt } from '../trust/bundle-receipts.ts'
import type { HeldRoot } from '../trust/held-roots.ts'
import type { RootAction } from '../trust/rotation-status.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import { armBundle, reportPhase } from './bundle.ts'
import { rootsMoved, rootTrusted } from './rollout.ts'
import type { Turn } from './turn.ts'

/**
 * Call after the bundle has these roots, before it is published. An announcement ends when `settlesAt` has passed (other
 * nodes can hear of a root later) and every client that uses an older bundle has accepted one with the root. A client that
 * does not answer is waited for during `ackWaitMs`; one that rejects the root stops it without an end. Not waited for are
 * streams whose first bundle had the root, and streams that have rejected every bundle: they use none.
 */
export function announce(turn: Turn, bundle: TrustBundle, added: readonly Pick<TrustAnchor, 'fingerprint'>[]): void {
  for (const { fingerprint } of added) {
    const root = bundle.root(fingerprint)
    if (root) begin(turn, bundle, root, root.anchor)
  }
}

/** Streams have yet to come back after a restart, so that an announcement begins again. */
export function announceAgain(turn: Turn, bundle: TrustBundle, root: HeldRoot): void {
  const { policy, now } = turn
  begin(turn, bundle, root, { learnedAt: now, settlesAt: now + policy.rotation.settleMs })
}

/** The stream had no version of this bundle before. */
export function sent(turn: Turn, receipt: BundleReceipt, secret: TrustBundleSecret): void {
  for (const { anchor, announcement } of announcedIn(bundleOf(turn, receipt)))
    if (!secret.has(anchor.fingerprint)) announcement.silent.add(receipt)
}

export function acknowledged(turn: Turn, receipt: BundleReceipt): void {
  const { accepted, rejected } = receipt
  const bundle = bundleOf(turn, receipt)
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
        reportPhase(turn, bundle, fingerprint, 'announcing', `${receipt.client()} rejects it: ${rejected.reason}`)
      }
    } else continue
    if (bundle) evaluate(turn, bundle, root)
  }
}

export function streamClosed(turn: Turn, receipt: BundleReceipt): void {
  const bundle = bundleOf(turn, receipt)
  for (const root of announcedIn(bundle)) {
    const wasSilent = root.announcement.silent.delete(receipt)
    if ((root.announcement.rejecting.delete(receipt) || wasSilent) && bundle) evaluate(turn, bundle, root)
  }
}

/** The settle time of a root has passed, or silent clients are waited for no longer. */
export function lookAtAnnouncements(turn: Turn, bundle: TrustBundle): void {
  for (const root of announcedIn(bundle)) {
    const { announcement } = root
    if (announcement.lookAt > turn.now) continue
    announcement.lookAt = announcement.waitUntil > turn.now ? announcement.waitUntil : Number.POSITIVE_INFINITY
    evaluate(turn, bundle, root)
  }
}

/** Does what an operator wishes: see {@link RootAction}. */
export function changeRoot(turn: Turn, bundle: TrustBundle, fingerprint: string, action: RootAction): void {
  const root = bundle.root(fingerprint)
  if (!root) return
  if (action === 'hold') hold(turn, bundle, root)
  else if (action === 'resume') resume(turn, bundle, root)
  else {
    root.announcement = undefined
    root.isHeld = false
    bundle.drop(fingerprint)
    reportPhase(turn, bundle, fingerprint, 'retiring', 'an operator has dropped it')
    rootsMoved(turn, bundle, { added: [], givenUp: [], revoked: [fingerprint] })
  }
}

/** It stays in its phase: no leaf under it is served, and it is not removed. */
function hold(turn: Turn, bundle: TrustBundle, root: HeldRoot): void {
  if (root.isHeld) return
  root.isHeld = true
  reportHeld(turn, bundle, root)
}

export function reportHeld(turn: Turn, bundle: TrustBundle, root: HeldRoot): void {
  reportPhase(turn, bundle, root.anchor.fingerprint, 'held', 'an operator holds it')
}

/** Ends a hold, and waits no longer for clients that have rejected the root. */
function resume(turn: Turn, bundle: TrustBundle, root: HeldRoot): void {
  const wasHeld = root.isHeld
  root.isHeld = false
  if (isAnnounced(root)) {
    root.announcement.ignoresRejections = true
    evaluate(turn, bundle, root)
  } else if (wasHeld) trust(turn, bundle, root, 'an operator has resumed it')
}

function begin(
  turn: Turn,
  bundle: TrustBundle,
  root: HeldRoot,
  { learnedAt, settlesAt }: Pick<TrustAnchor, 'learnedAt' | 'settlesAt'>,
): void {
  const { state, policy } = turn
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
  reportPhase(turn, bundle, root.anchor.fingerprint, 'announcing', `${count(silent.size, 'client')} to learn it first`)
  armBundle(turn, bundle)
}

function evaluate(turn: Turn, bundle: TrustBundle, root: Announced): void {
  const { settlesAt, waitUntil, silent, rejecting, ignoresRejections } = root.announcement
  if (root.isHeld || turn.now < settlesAt) return
  if (rejecting.size > 0 && !ignoresRejections) return
  if (silent.size > 0 && turn.now < waitUntil) return
  const reason = silent.size === 0 ? 'every client has it' : `${count(silent.size, 'client')} said nothing`
  trust(turn, bundle, root, reason)
}

function trust(turn: Turn, bundle: TrustBundle, root: HeldRoot, reason: string): void {
  const { fingerprint } = root.anchor
  root.announcement = undefined
  reportPhase(turn, bundle, fingerprint, 'trusted', reason)
  rootTrusted(turn, bundle, fingerprint)
}

type Announced = HeldRoot & { readonly announcement: NonNullable<HeldRoot['announcement']> }

function isAnnounced(root: HeldRoot): root is Announced {
  return root.announcement !== undefined
}

function announcedIn(bundle: TrustBundle | undefined): readonly Announced[] {
  return bundle?.roots().filter(isAnnounced) ?? []
}

function bundleOf({ state }: Turn, { name }: BundleReceipt): TrustBundle | undefined {
  return state.bundles.named(name)
}

function count(number: number, noun: string): string {
  return `${number} ${number === 1 ? noun : `${noun}s`}`
}
