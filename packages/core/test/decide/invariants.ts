/** Invariants that hold after every step. */

import { wishText } from '../../src/contract/certificate-wish.ts'
import type { SealedKey } from '../../src/contract/key-vault.ts'
import {
  failingWith,
  type Identity,
  type Issued,
  isAlone,
  nextAt,
  type Request,
  usable,
} from '../../src/state/identity.ts'
import { isUsed } from '../../src/state/state.ts'
import type { TrustBundle } from '../../src/trust/trust-bundle.ts'
import type { World } from './world.ts'

/** A clock that is set back by less is not seen to jump. */
const UNSEEN_JUMP_MS = 5_000
/** The time over which identities that waited for a CA are spread once it is back. */
const WOKEN_WITHIN_MS = 10_000
/** A renewal is at least 150 s away: with the shortest lifetime and none of these. */
const MANY_UNSEEN_JUMPS_MS = 60_000

function claim(holds: boolean, what: () => string): void {
  if (!holds) throw new Error(what())
}

export function checkInvariants(world: World): void {
  const { state, flights } = world
  const current = new Map<Identity, Request>()
  for (const request of flights.keys()) {
    if (request.of.work.kind !== 'fetching' || request.of.work.request !== request) continue
    claim(!current.has(request.of), () => `two requests of ${request.of.id}`)
    current.set(request.of, request)
  }
  let queued = 0
  for (const identity of state.identities.values()) {
    checkPlan(world, identity, current)
    checkCertificates(identity)
    checkCarried(world, identity)
    if (identity.work.kind === 'queued') queued++
  }
  claim(state.queue.waiting === queued, () => `${queued} are queued, and ${state.queue.waiting} wait in the queue`)
  claim(state.queue.running === flights.size, () => `${flights.size} in flight, and ${state.queue.running} counted`)
  claim(flights.size <= state.ca.window.max, () => `${flights.size} in flight, of ${state.ca.window.max}`)
  claim(
    state.restoring.running === world.reads.length,
    () => `${world.reads.length} are read, and ${state.restoring.running} counted`,
  )
  checkQueueMoves(world)
  checkAbsence(world)
  checkKeys(world)
  checkBundles(world)
  checkWishes(world)
}

function checkPlan(world: World, identity: Identity, current: ReadonlyMap<Identity, Request>): void {
  const { state, reads, settings } = world
  const { id, work, keep } = identity
  switch (work.kind) {
    case 'waiting':
      claim(Number.isFinite(work.due), () => `${id} waits until ${work.due}`)
      // Failing identities are planned again after a jump of the clock, once the CA was asked for its roots.
      claim(
        isAlone(identity) ||
          state.ca.awaitsRoots !== undefined ||
          work.due <= Math.max(world.putOff.get(identity) ?? work.due, world.now + WOKEN_WITHIN_MS),
        () => `${id} was put off, and is asked for later`,
      )
      break
    case 'fetching':
      claim(current.get(identity) === work.request, () => `${id} waits for a request that is not in flight`)
      break
    case 'restoring': {
      const isRead = reads.some(read => read.identity === identity)
      claim(isRead || state.restoring.waiting > 0, () => `${id} waits for the disk, and nobody reads it`)
      break
    }
    case 'idle':
      claim(
        keep.kind !== 'on-demand' && !isUsed(state, identity) && settings.idle.action === 'drop',
        () => `${id} is idle: ${keep.kind}, used: ${isUsed(state, identity)}`,
      )
      break
    case 'forgotten':
      claim(false, () => `${id} is held and forgotten`)
      break
    case 'queued':
      break
  }
  const at = nextAt(identity)
  claim(world.wakeAt <= at, () => `the next wake is later than ${id} is due`)
}

function checkCertificates({ id, current, upcoming, spare }: Identity): void {
  for (const issued of [current, upcoming?.issued, spare])
    claim(!issued?.secret.privateKey.isWiped, () => `${id} keeps a key that was wiped`)
  claim(spare === undefined || spare !== current, () => `${id} has one certificate twice`)
  if (upcoming) claim(Number.isFinite(upcoming.from), () => `${id} waits until ${upcoming.from}`)
}

/** A certificate for an outdated wish is replaced soon, by a CA that answers, and whose clock is not ahead. */
function checkCarried({ now, state }: World, identity: Identity): void {
  const { id, work, health, wish, upcoming } = identity
  const served = usable(identity, now)
  if (
    state.ca.awaitsRoots !== undefined ||
    !served ||
    upcoming ||
    served.wish === wishText(wish) ||
    work.kind !== 'waiting' ||
    health.kind !== 'ok'
  )
    return
  claim(work.due <= now + MANY_UNSEEN_JUMPS_MS, () => `${id} is to carry ${wish.dnsNames}, and waits until ${work.due}`)
}

/** Whoever is queued is started by something: an answer, the end of a pause, a probe, the roots. */
function checkQueueMoves(world: World): void {
  const { state } = world
  if (state.queue.waiting === 0) return
  const { running } = state.queue
  if (running > 0 || state.isClosed) return
  const { awaitsRoots } = state.ca
  if (awaitsRoots !== undefined)
    claim(
      world.rootsAsked.some(({ jump }) => jump === awaitsRoots),
      () => 'all wait for the roots, and nobody asks',
    )
  else claim(Number.isFinite(world.wakeAt), () => 'some wait, and nothing starts them')
}

/** A CA counts as down only while somebody fails for want of it, or is about to ask it. */
function checkAbsence({ state: { ca, queue, identities, isClosed } }: World): void {
  if (ca.absence.since === undefined || queue.waiting > 0 || queue.running > 0 || isClosed) return
  const witness = [...identities.values()].find(identity => failingWith(identity) === 'absence')
  claim(witness !== undefined, () => 'the CA counts as down, and nobody fails for want of it')
}

function checkKeys({ state, keys }: World): void {
  const held = new Set<SealedKey>()
  for (const { current, upcoming, spare } of state.identities.values())
    for (const issued of [current, upcoming?.issued, spare]) if (issued) held.add(issued.secret.privateKey)
  claim(held.size === keys.size, () => `${held.size} keys are held, and ${keys.size} are not wiped`)
}

function checkBundles({ state, published, wakeAt }: World): void {
  const leaves = new Map<TrustBundle, Map<string, number>>()
  const count = (issued: Issued | undefined) => {
    if (!issued) return
    const { bundle, root } = issued
    const ofBundle = leaves.get(bundle) ?? new Map<string, number>()
    leaves.set(bundle, ofBundle.set(root.fingerprint, (ofBundle.get(root.fingerprint) ?? 0) + 1))
  }
  for (const { current, upcoming, spare } of state.identities.values()) {
    count(current)
    count(upcoming?.issued)
    count(spare)
  }
  for (const bundle of state.bundles.values()) {
    claim(wakeAt <= bundle.nextAt, () => `the next wake is later than ${bundle.name} is due`)
    claim(published.get(bundle.name)?.version === bundle.secret?.version, () => `${bundle.name} is not published`)
    for (const { anchor, leases } of bundle.roots.values()) {
      const expected = leaves.get(bundle)?.get(anchor.fingerprint) ?? 0
      claim(leases === expected, () => `${bundle.name} counts ${leases} leaves of ${expected}`)
    }
  }
}

/** Who asked and was refused is admitted as soon as there is room. */
function checkWishes({ state, wishes, watched, policy }: World): void {
  const waiting = [...wishes].filter(id => !state.identities.has(id))
  if (waiting.length === 0) return
  const all = [...state.identities.values()]
  const hasRoom = all.length < policy.maxIdentities
  claim(!hasRoom, () => `${waiting[0]} is not held, and there is room`)
  if (all.length > policy.maxIdentities) return
  const evictable = all.find(({ id, keep }) => keep.kind !== 'pinned' && !watched.has(id))
  claim(evictable === undefined, () => `${waiting[0]} is not held, and ${evictable?.id} could go`)
}

/** Invariants that hold once all due work is done. */
export function checkAtRest(world: World): void {
  const { state, watched, now } = world
  for (const identity of state.identities.values()) checkIdle(world, identity)
  for (const [id, told] of watched) {
    const issued = state.identities.get(id)?.current
    claim(told === issued, () => `the watcher of ${id} has another certificate than it`)
    if (told) claim(told.secret.notAfter > now, () => `${id} is served after its end`)
  }
}

/** Unused entries are released. */
function checkIdle({ state, now, usedAt, settings: { idle } }: World, identity: Identity): void {
  const { id, keep, work, addedAt } = identity
  const isKept = keep.kind === 'pinned' && idle.action === 'renew'
  if (isUsed(state, identity) || isKept || keep.kind === 'removed' || work.kind === 'idle') return
  const since = Math.max(usedAt.get(id) ?? Number.NEGATIVE_INFINITY, addedAt)
  claim(
    now <= since + idle.afterMs + UNSEEN_JUMP_MS,
    () => `${id} is kept though nobody uses it: ${keep.kind}, ${work.kind}`,
  )
}
