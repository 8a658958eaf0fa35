/** When leaves under a new root are served: after their root is known, and then by all in turn. */

import type { TrustAnchor } from '../contract/trust-anchor.ts'
import { trustDomainOf } from '../spiffe/spiffe-id.ts'
import { type Identity, newest, usable, worthKeeping } from '../state/identity.ts'
import type { Issued } from '../state/issued.ts'
import { isUsed, membersOf } from '../state/state.ts'
import type { Learned, TrustBundle } from '../trust/trust-bundle.ts'
import { storeRoots } from './bundle.ts'
import { retryFailing } from './outage.ts'
import { bringForward, remainingOf } from './plan.ts'
import { servesRefused } from './preflight.ts'
import { turnTime } from './renewal-time.ts'
import { dropUpcoming, hasten } from './serving.ts'
import type { Turn } from './turn.ts'

/** `givenUp` and `revoked` are fingerprints. */
export interface RootMoves extends Pick<Learned, 'added' | 'givenUp'> {
  /** Leaves under these are replaced at once, those under others that are given up in turn. */
  readonly revoked: readonly string[]
}

/** Whether `issued` may be served in the place of the one in use, if one is worth keeping. */
export function mayReplace(turn: Turn, identity: Identity, { root }: Issued): boolean {
  const { bundles } = turn.state
  const inUse = worthKeeping(identity, turn.now)
  if (!inUse) return true
  // Nobody trusts its root any longer: it is worth nothing.
  if (!bundles.holderOf(identity.id, inUse.root.fingerprint)) return true
  // Every peer is to know it first.
  return bundles.holderOf(identity.id, root.fingerprint)?.isTrusted(root.fingerprint) ?? true
}

/** Call after `issued` replaced `before`: the first leaf under a newer root shows that the CA signs under it. */
export function followFirst(turn: Turn, { id }: Identity, { root }: Issued, before: TrustAnchor): void {
  if (root.learnedAt <= before.learnedAt) return
  const bundle = turn.state.bundles.get(trustDomainOf(id))
  if (bundle?.anchor(root.fingerprint)) follow(turn, bundle, root.fingerprint)
}

/** Failed fetches are tried again under a new root: they can have failed for want of it. Leaves under roots that were given up are replaced. */
export function rootsMoved(turn: Turn, bundle: TrustBundle, { added, givenUp, revoked }: RootMoves): void {
  if (added.length > 0) retryFailing(turn, bundle.trustDomain)
  if (givenUp.length > 0) replaceInTurn(turn, bundle, root => givenUp.includes(root.fingerprint))
  if (revoked.length > 0) replaceRevoked(turn, bundle, revoked)
}

/**
 * Leaves under this root are allowed from now on: waiting ones are served. If none waits, the first identity asks whether
 * the CA signs under it yet.
 */
export function rootTrusted(turn: Turn, bundle: TrustBundle, fingerprint: string): void {
  // The CA has changed its mind meanwhile.
  if (bundle.isGivenUp(fingerprint)) return
  const waiting = inTurn(turn, bundle, ({ upcoming }) => upcoming?.issued.root.fingerprint === fingerprint)
  const someServed = serveWaiting(turn, waiting)
  // Roots of one identity come with its certificate; one that the operator lists says nothing of the CA.
  if (bundle.owner || bundle.root(fingerprint)?.standing === undefined) return
  if (waiting.length > 0) {
    if (someServed) follow(turn, bundle, fingerprint)
  } else {
    const learnedAt = bundle.anchor(fingerprint)?.learnedAt ?? 0
    const [first] = replaceable(turn, bundle, root => root.learnedAt < learnedAt)
    if (first) bringForward(turn, first, turn.now, 'new-root')
  }
  replaceInTurn(turn, bundle, root => bundle.isGivenUp(root.fingerprint))
}

/** Leaves under roots that were revoked are replaced at once: by one that waits for its own root, or a new one. */
function replaceRevoked(turn: Turn, bundle: TrustBundle, fingerprints: readonly string[]): void {
  const { now } = turn
  const isUnder = (issued: Issued | undefined) => issued !== undefined && fingerprints.includes(issued.root.fingerprint)
  const all = inTurn(turn, bundle, each => isUnder(usable(each, now)) || isUnder(newest(each, now)))
  for (const identity of all) {
    const waiting = identity.upcoming?.issued
    if (waiting && !isUnder(waiting)) {
      if (mayReplace(turn, identity, waiting)) hasten(turn, identity, waiting.secret.notBefore)
      continue
    }
    // It must not take the place of one that peers accept.
    if (waiting && !bundle.anchor(waiting.root.fingerprint)) dropUpcoming(turn, identity)
    bringForward(turn, identity, now, 'new-root')
  }
}

/**
 * The roots have changed while these waited, so each kind is checked again: one that clients would refuse waits until the one
 * in use is about to end. `false` if none may be served.
 */
function serveWaiting(turn: Turn, all: readonly Identity[]): boolean {
  let some = false
  for (const identity of all) {
    const waiting = identity.upcoming?.issued
    const refusal = waiting && turn.policy.refusalOf(waiting, identity.id, turn.now)
    if (!waiting || (refusal !== undefined && !servesRefused(turn, identity, refusal))) continue
    some = true
    if (mayReplace(turn, identity, waiting)) hasten(turn, identity, waiting.secret.notBefore)
  }
  return some
}

/** Once for each root: a CA that signs under two in turns would otherwise have everything renewed again and again. */
function follow(turn: Turn, bundle: TrustBundle, fingerprint: string): void {
  const learnedAt = bundle.anchor(fingerprint)?.learnedAt ?? 0
  if (!bundle.follow(fingerprint, turn.now)) return
  storeRoots(turn, bundle)
  replaceInTurn(turn, bundle, root => root.learnedAt < learnedAt)
}

/** Brings the renewals of leaves forward whose root `isOld`, spread out. */
function replaceInTurn(turn: Turn, bundle: TrustBundle, isOld: (root: TrustAnchor) => boolean): void {
  const all = replaceable(turn, bundle, isOld)
  for (const [index, identity] of all.entries())
    bringForward(turn, identity, turnTime(remainingOf(turn, identity), index / all.length), 'new-root')
}

function replaceable(turn: Turn, bundle: TrustBundle, isOld: (root: TrustAnchor) => boolean): readonly Identity[] {
  return inTurn(turn, bundle, identity => {
    const root = newest(identity, turn.now)?.root
    return identity.work.kind === 'waiting' && root !== undefined && isOld(root)
  })
}

/** The identities whose leaves are verified with this bundle: streamed ones first, each kind by what is left. */
function inTurn(turn: Turn, bundle: TrustBundle, matches: (identity: Identity) => boolean): readonly Identity[] {
  const { state, now } = turn
  const found = [...membersOf(state, bundle)].flatMap(identity => {
    if (!matches(identity) || !isVerifiedWith(turn, bundle, identity)) return []
    return [{ identity, notAfter: newest(identity, now)?.secret.notAfter ?? 0, isUsed: isUsed(state, identity) }]
  })
  found.sort((a, b) => Number(b.isUsed) - Number(a.isUsed) || a.notAfter - b.notAfter)
  return found.map(({ identity }) => identity)
}

/** Not those whose leaves are under roots of their own. */
function isVerifiedWith({ state: { bundles }, now }: Turn, { owner }: TrustBundle, identity: Identity): boolean {
  return owner !== undefined || !bundles.own(identity.id)?.anchor(newest(identity, now)?.root.fingerprint ?? '')
}
