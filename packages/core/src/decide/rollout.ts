/** When leaves under a new root are served: after their root is known, and then by all in turn. */

import type { TrustAnchor } from '../contract/trust-anchor.ts'
import { trustDomainOf } from '../spiffe/spiffe-id.ts'
import { type Identity, type Issued, newest, usable } from '../state/identity.ts'
import { isUsed, membersOf } from '../state/state.ts'
import type { Learned, TrustBundle } from '../trust/trust-bundle.ts'
import { storeRoots } from './bundle.ts'
import { retryFailing } from './outage.ts'
import { bringForward, remainingOf } from './plan.ts'
import { servesRefused } from './preflight.ts'
import { spreadTime } from './renewal-time.ts'
import { dropUpcoming, hasten, mayReplace } from './serving.ts'
import type { Step } from './step.ts'

/** `givenUp` and `revoked` are fingerprints. */
export interface RootMoves extends Pick<Learned, 'added' | 'givenUp'> {
  /** Leaves under these are replaced at once, those under others that are given up in turn. */
  readonly revoked: readonly string[]
}

/** Call after `issued` replaced `before`: the first leaf under a newer root shows that the CA signs under it. */
export function followFirst(step: Step, { id }: Identity, { root }: Issued, before: TrustAnchor): void {
  if (root.learnedAt <= before.learnedAt) return
  const bundle = step.state.bundles.get(trustDomainOf(id))
  if (bundle?.anchor(root.fingerprint)) follow(step, bundle, root.fingerprint)
}

/** Retries failed fetches after a new root, whose absence may be the cause. Replaces leaves under roots that were given up. */
export function rootsMoved(step: Step, bundle: TrustBundle, { added, givenUp, revoked }: RootMoves): void {
  if (added.length > 0) retryFailing(step, bundle.trustDomain)
  if (givenUp.length > 0) replaceInTurn(step, bundle, root => givenUp.includes(root.fingerprint))
  if (revoked.length > 0) replaceRevoked(step, bundle, revoked)
}

/**
 * Leaves under this root are allowed from now on: waiting ones are served. If none waits, the first identity asks whether
 * the CA signs under it yet.
 */
export function rootTrusted(step: Step, bundle: TrustBundle, fingerprint: string): void {
  // The CA gave the root up meanwhile.
  if (bundle.isGivenUp(fingerprint)) return
  const waiting = inTurn(step, bundle, ({ upcoming }) => upcoming?.issued.root.fingerprint === fingerprint)
  const someServed = serveWaiting(step, waiting)
  // Roots of one identity come with its certificate; a root of the operator's is no sign that the CA signs under it.
  if (bundle.owner || bundle.roots.get(fingerprint)?.standing === undefined) return
  if (waiting.length > 0) {
    if (someServed) follow(step, bundle, fingerprint)
  } else {
    const learnedAt = bundle.anchor(fingerprint)?.learnedAt ?? 0
    const all = replaceable(step, bundle, root => root.learnedAt < learnedAt)
    // A failing identity would prove nothing about the root.
    const first = all.find(({ health }) => health.kind === 'ok') ?? all[0]
    if (first) bringForward(step, first, step.now, 'new-root')
  }
  replaceInTurn(step, bundle, root => bundle.isGivenUp(root.fingerprint))
}

/** Leaves under roots that were revoked are replaced at once: by one that waits for its own root, or a new one. */
function replaceRevoked(step: Step, bundle: TrustBundle, fingerprints: readonly string[]): void {
  const { now } = step
  const isUnder = (issued: Issued | undefined) => issued !== undefined && fingerprints.includes(issued.root.fingerprint)
  const all = inTurn(step, bundle, each => isUnder(usable(each, now)) || isUnder(newest(each, now)))
  for (const identity of all) {
    const waiting = identity.upcoming?.issued
    if (waiting && !isUnder(waiting)) {
      if (mayReplace(step, identity, waiting)) hasten(step, identity, waiting.secret.notBefore)
      continue
    }
    // It must not take the place of one that peers accept.
    if (waiting && !bundle.anchor(waiting.root.fingerprint)) dropUpcoming(step, identity)
    bringForward(step, identity, now, 'revoked')
  }
}

/**
 * The roots changed while these leaves waited, so each kind is checked again: a leaf that clients would refuse waits until the
 * one in use is about to end. `false` if none may be served.
 */
function serveWaiting(step: Step, all: readonly Identity[]): boolean {
  let some = false
  for (const identity of all) {
    const waiting = identity.upcoming?.issued
    const refusal = waiting && step.policy.refusalOf(waiting, identity.id, step.now)
    if (!waiting || (refusal !== undefined && !servesRefused(step, identity, refusal))) continue
    some = true
    if (mayReplace(step, identity, waiting)) hasten(step, identity, waiting.secret.notBefore)
  }
  return some
}

/** Runs once per root: a CA that alternates between two would otherwise cause endless renewals. */
function follow(step: Step, bundle: TrustBundle, fingerprint: string): void {
  const learnedAt = bundle.anchor(fingerprint)?.learnedAt ?? 0
  if (!bundle.roots.follow(fingerprint, step.now)) return
  storeRoots(step, bundle)
  replaceInTurn(step, bundle, root => root.learnedAt < learnedAt)
}

/** Brings forward, spread out, the renewals of leaves whose root `isOld`. */
function replaceInTurn(step: Step, bundle: TrustBundle, isOld: (root: TrustAnchor) => boolean): void {
  const all = replaceable(step, bundle, isOld)
  for (const [index, identity] of all.entries())
    bringForward(step, identity, spreadTime(remainingOf(step, identity), index / all.length), 'new-root')
}

function replaceable(step: Step, bundle: TrustBundle, isOld: (root: TrustAnchor) => boolean): readonly Identity[] {
  return inTurn(step, bundle, identity => {
    const root = newest(identity, step.now)?.root
    return identity.work.kind === 'waiting' && root !== undefined && isOld(root)
  })
}

/** The identities whose leaves are verified with this bundle: streamed ones first, each kind by what is left. */
function inTurn(step: Step, bundle: TrustBundle, matches: (identity: Identity) => boolean): readonly Identity[] {
  const { state, now } = step
  const found = [...membersOf(state, bundle)].flatMap(identity => {
    if (!matches(identity) || !isVerifiedWith(step, bundle, identity)) return []
    return [{ identity, notAfter: newest(identity, now)?.secret.notAfter ?? 0, isUsed: isUsed(state, identity) }]
  })
  found.sort((a, b) => Number(b.isUsed) - Number(a.isUsed) || a.notAfter - b.notAfter)
  return found.map(({ identity }) => identity)
}

/** Excludes leaves under an identity's own roots; a leaf that is older than those roots still needs its root here. */
function isVerifiedWith({ state: { bundles }, now }: Step, bundle: TrustBundle, identity: Identity): boolean {
  const last = newest(identity, now)
  if (bundle.owner !== undefined || last?.bundle === bundle) return true
  return !bundles.own(identity.id)?.anchor(last?.root.fingerprint ?? '')
}
