/** Orders of events that random runs found to go wrong, each as short as it can be. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeFixtures } from '../../test/decide/fixtures.ts'
import { checkInvariants } from '../../test/decide/invariants.ts'
import { Random } from '../../test/decide/random.ts'
import type { Settings } from '../../test/decide/settings.ts'
import { World } from '../../test/decide/world.ts'
import { NO_WISH } from '../contract/certificate-wish.ts'
import { type Identity, usable } from '../state/identity.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

const fixtures = await makeFixtures(Date.UTC(2026, 0, 1))

const SETTINGS: Settings = {
  identities: 6,
  ttlSeconds: 3_600,
  timeoutMs: 30_000,
  overlapMs: MINUTE_MS,
  hasStore: false,
  listsRoots: true,
  revokesMissingRoots: false,
  rotation: { ratio: 0.5, jitter: 0, settleMs: 5_000, ownSettleMs: 0, ackWaitMs: MINUTE_MS },
  retry: { minMs: 500, maxMs: 150_000 },
  concurrency: 8,
  maxIdentities: 10,
  removalGraceMs: MINUTE_MS,
  idle: { afterMs: MINUTE_MS, action: 'renew' },
}

function makeWorld(settings: Partial<Settings> = {}): World {
  const world = new World(new Random(1), { ...SETTINGS, ...settings }, fixtures)
  pass(world, SECOND_MS)
  return world
}

function pass(world: World, ms: number): void {
  world.advance(ms, () => checkInvariants(world))
}

function add(world: World, ...who: readonly number[]): void {
  for (const each of who) world.dispatch({ kind: 'added', id: world.id(each), tokenFile: undefined, wish: NO_WISH })
}

function list(world: World, listed: readonly number[], signer: number): void {
  world.ca.listed = listed
  world.ca.signer = signer
  world.dispatch({ kind: 'caChanged', change: { kind: 'roots' } })
  pass(world, SECOND_MS)
}

function identityOf(world: World, who: number): Identity {
  const identity = world.state.identities.get(world.id(who))
  assert.ok(identity)
  return identity
}

function fingerprint(index: number): string | undefined {
  return fixtures.authorities[index]?.root.fingerprint
}

test('an identity that waits for an approval, and meets a CA without room, is tried again after its backoff', () => {
  const world = makeWorld()
  world.pending.add(world.id(0))
  world.ca.mode = 'rate-limited'
  add(world, 0)
  pass(world, MINUTE_MS)
  assert.ok(world.sent <= 10, `${world.sent} requests`)
})

test('a CA without room is not asked in a loop once the clock is set back', () => {
  const world = makeWorld()
  world.ca.mode = 'rate-limited-for'
  world.ca.amount = MINUTE_MS
  add(world, 0)
  pass(world, SECOND_MS)
  world.jump(-HOUR_MS)
  pass(world, 10 * MINUTE_MS)
  assert.ok(world.sent <= 12, `${world.sent} requests`)
})

test('an identity that somebody asks for while it is read from the store is read once', () => {
  const world = makeWorld({ hasStore: true })
  add(world, 0)
  pass(world, SECOND_MS)
  world.restart()
  add(world, 0)
  world.watch(world.id(0))
  assert.equal(world.reads.length, 1)
  pass(world, SECOND_MS)
  assert.ok(usable(identityOf(world, 0), world.now))
})

test('a root that was revoked and is listed again counts the leaves that are still under it', () => {
  const world = makeWorld({ revokesMissingRoots: true })
  add(world, 0)
  pass(world, SECOND_MS)
  world.ca.mode = 'denied'
  list(world, [1], 1)
  list(world, [0, 1], 1)
  const roots = world.state.bundles.get(world.state.trustDomain)?.roots.values()
  const leaves = roots?.map(({ anchor, leases }) => [anchor.fingerprint, leases])
  assert.deepEqual(
    leaves?.find(([each]) => each === fingerprint(0)),
    [fingerprint(0), 1],
  )
  world.dispatch({ kind: 'dropped', id: world.id(0) })
  checkInvariants(world)
})

test('a leaf that waits for its root does not take the place of another once that root is revoked', () => {
  const rotation = { ...SETTINGS.rotation, settleMs: 2 * HOUR_MS }
  const world = makeWorld({ revokesMissingRoots: true, rotation })
  add(world, 0)
  pass(world, SECOND_MS)
  list(world, [0, 1], 1)
  world.dispatch({ kind: 'renewalAsked', id: world.id(0) })
  pass(world, SECOND_MS)
  assert.equal(identityOf(world, 0).upcoming?.issued.root.fingerprint, fingerprint(1))
  world.ca.mode = 'denied'
  list(world, [0], 0)
  pass(world, 57 * MINUTE_MS)
  assert.equal(identityOf(world, 0).current?.root.fingerprint, fingerprint(0))
})

test('an identity that has no certificate yet asks again once the clock is set back', () => {
  const world = makeWorld()
  world.ca.mode = 'early'
  world.ca.amount = 4 * MINUTE_MS
  add(world, 0)
  pass(world, SECOND_MS)
  world.jump(-HOUR_MS)
  world.ca.mode = 'good'
  pass(world, 10 * SECOND_MS)
  assert.ok(usable(identityOf(world, 0), world.now))
})

test('a stored certificate that is not valid yet does not keep the CA from being asked', () => {
  const world = makeWorld({ hasStore: true })
  add(world, 0)
  pass(world, SECOND_MS)
  world.jump(-2 * MINUTE_MS)
  world.restart()
  add(world, 0)
  pass(world, 5 * SECOND_MS)
  assert.ok(usable(identityOf(world, 0), world.now))
})

test('an idle identity that an operator renews is idle again if nobody comes', () => {
  const world = makeWorld({ idle: { afterMs: MINUTE_MS, action: 'drop' } })
  add(world, 0)
  pass(world, MINUTE_MS)
  assert.equal(identityOf(world, 0).work.kind, 'idle')
  world.dispatch({ kind: 'renewalAsked', id: world.id(0) })
  pass(world, SECOND_MS)
  assert.ok(usable(identityOf(world, 0), world.now))
  pass(world, MINUTE_MS)
  assert.equal(identityOf(world, 0).work.kind, 'idle')
})

test('identities that nobody uses are let go in time also when the clock was set back', () => {
  const world = makeWorld()
  world.dispatch({ kind: 'asked', id: world.id(0) })
  pass(world, SECOND_MS)
  world.jump(-HOUR_MS)
  world.dispatch({ kind: 'asked', id: world.id(1) })
  pass(world, 2 * MINUTE_MS)
  assert.equal(world.state.identities.size, 0)
})

test('a CA that is down is probed soon when the clock is set back while a probe hangs', () => {
  const world = makeWorld()
  world.ca.mode = 'silent'
  add(world, 0)
  pass(world, 2 * MINUTE_MS)
  world.jump(-HOUR_MS)
  world.ca.mode = 'good'
  pass(world, MINUTE_MS)
  assert.ok(usable(identityOf(world, 0), world.now))
})

for (const [what, mode] of [
  ['waits for the next probe', 'absent'],
  ['is the probe', 'silent'],
] as const)
  test(`a CA that is down is not so any longer once the only identity that failed, which ${what}, is gone`, () => {
    const world = makeWorld({ listsRoots: false })
    add(world, 1)
    pass(world, SECOND_MS)
    world.ca.mode = mode
    add(world, 0)
    pass(world, 3 * MINUTE_MS)
    assert.notEqual(world.state.ca.absence.since, undefined)
    world.dispatch({ kind: 'dropped', id: world.id(0) })
    pass(world, SECOND_MS)
    assert.equal(world.state.ca.absence.since, undefined)
  })

test('an identity that fails is not the one that asks whether the CA signs under a new root', () => {
  const world = makeWorld()
  add(world, 0, 1)
  pass(world, SECOND_MS)
  world.ca.mode = 'denied'
  world.ca.mask = 0b01
  world.dispatch({ kind: 'renewalAsked', id: world.id(0) })
  pass(world, SECOND_MS)
  assert.equal(identityOf(world, 0).health.kind, 'failing')
  list(world, [0, 1], 0)
  pass(world, SETTINGS.rotation.settleMs)
  assert.equal(identityOf(world, 0).health.kind, 'failing')
  assert.ok((identityOf(world, 1).lastSuccessAt ?? 0) > world.now - SETTINGS.rotation.settleMs)
})
