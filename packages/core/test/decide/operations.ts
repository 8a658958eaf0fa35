/** External events, drawn at random: data, so that a failing run can be made shorter. */

import type { Random } from './random.ts'
import { MODES } from './random-ca.ts'
import { MOODS } from './server.ts'
import type { World } from './world.ts'

export interface Operation {
  /** Milliseconds that pass before it. */
  readonly after: number
  readonly kind: Kind
  /** The number of an identity, a root, or a mode. */
  readonly who: number
  /** Returns a number in [0, 1). */
  readonly amount: number
}

type Act = (world: World, operation: Operation) => void

/** The operations with their weights. */
const ACTS = {
  add: [10, (world, { who, amount }) => add(world, who, amount)],
  remove: [5, (world, { who }) => world.dispatch({ kind: 'removed', id: world.id(who) })],
  drop: [2, (world, { who }) => drop(world, who)],
  watch: [8, (world, { who }) => world.watch(world.id(who))],
  ask: [14, (world, { who }) => ask(world, who)],
  askUnwatched: [2, (world, { who }) => world.dispatch({ kind: 'asked', id: world.id(who) })],
  unwatch: [9, (world, { who }) => world.unwatch(world.id(who))],
  renew: [4, (world, { who }) => world.dispatch({ kind: 'renewalAsked', id: world.id(who) })],
  retry: [3, (world, { who }) => world.dispatch({ kind: 'retryAsked', id: world.id(who) })],
  retryAll: [1, world => world.dispatch({ kind: 'retryAsked' })],
  refusedReader: [1, (world, { who }) => world.dispatch({ kind: 'readerRefused', id: world.id(who) })],
  changeOne: [2, (world, { who }) => changeOne(world, who)],
  changeAll: [1, world => world.dispatch({ kind: 'caChanged', change: { kind: 'certificates' } })],
  mode: [12, (world, { who, amount }) => setMode(world, who, amount)],
  heal: [6, world => (world.ca.mode = 'good')],
  latency: [2, (world, { amount }) => (world.ca.latencyMs = amount ** 3 * 8_000)],
  jump: [2, (world, { amount }) => world.jump(signed(amount, 7_200_000))],
  drift: [1, (world, { amount }) => world.jump(signed(amount, 4_900))],
  stall: [2, (world, { amount }) => world.stall(amount ** 2 * 120_000)],
  list: [3, (world, { who, amount }) => list(world, who, amount)],
  sign: [2, (world, { who }) => sign(world, who)],
  hold: [1, (world, { who }) => changeRoot(world, who, 'hold')],
  resume: [2, (world, { who }) => changeRoot(world, who, 'resume')],
  dropRoot: [1, (world, { who }) => changeRoot(world, who, 'drop')],
  revoke: [1, (world, { who }) => world.crl(who % world.fixtures.authorities.length)],
  unrevoke: [1, world => world.crl(undefined)],
  refuse: [1, (world, { who }) => world.refused.add(fingerprintOf(world, who))],
  unrefuse: [1, world => world.refused.clear()],
  pend: [1, (world, { who }) => world.pending.add(world.id(who))],
  unpend: [1, world => world.pending.clear()],
  ownRoots: [1, (world, { who }) => toggleOwn(world, who)],
  open: [2, (world, { who }) => world.openStream(MOODS[who % MOODS.length] ?? 'accepts')],
  close: [1.5, (world, { who }) => world.server.close(who)],
  breakDisk: [0.5, world => (world.disk.isBroken = true)],
  mendDisk: [0.5, world => (world.disk.isBroken = false)],
  restart: [0.7, world => world.restart()],
} as const satisfies Record<string, readonly [number, Act]>

type Kind = keyof typeof ACTS

const KINDS = Object.keys(ACTS).filter(kind => kind in ACTS) as Kind[]
const TOTAL = KINDS.reduce((sum, kind) => sum + ACTS[kind][0], 0)

export function drawOperations(random: Random, count: number): readonly Operation[] {
  return Array.from({ length: count }, () => ({
    after: drawWait(random),
    kind: drawKind(random),
    who: random.below(64),
    amount: random.next(),
  }))
}

export function apply(world: World, operation: Operation): void {
  world.limits.event()
  world.usedAt.set(world.id(operation.who), world.now)
  const act: Act = ACTS[operation.kind][1]
  act(world, operation)
}

function drawKind(random: Random): Kind {
  let left = random.next() * TOTAL
  for (const kind of KINDS) {
    left -= ACTS[kind][0]
    if (left < 0) return kind
  }
  return 'heal'
}

function drawWait(random: Random): number {
  const kind = random.next()
  if (kind < 0.25) return 0
  if (kind < 0.5) return random.below(200)
  if (kind < 0.8) return random.below(5_000)
  if (kind < 0.97) return random.below(120_000)
  return random.below(1_200_000)
}

function signed(amount: number, most: number): number {
  const share = 2 * amount - 1
  return Math.round(share ** 3 * most)
}

function add(world: World, who: number, amount: number): void {
  const tokenFile = amount < 0.1 ? '/token' : undefined
  const wish = { dnsNames: amount > 0.6 ? [] : [amount > 0.3 ? 'a.example' : 'b.example'] }
  world.dispatch({ kind: 'added', id: world.id(who), tokenFile, wish })
}

function drop(world: World, who: number): void {
  world.wishes.delete(world.id(who))
  world.dispatch({ kind: 'dropped', id: world.id(who) })
}

/** As a stream does: it watches first. */
function ask(world: World, who: number): void {
  const id = world.id(who)
  world.watch(id)
  world.wishes.add(id)
  world.dispatch({ kind: 'asked', id })
}

function changeOne(world: World, who: number): void {
  world.dispatch({ kind: 'caChanged', change: { kind: 'certificates', identities: [world.id(who)] } })
}

function setMode({ ca }: World, who: number, amount: number): void {
  ca.mode = MODES[who % MODES.length] ?? 'good'
  ca.mask = amount < 0.5 ? -1 : Math.floor(amount * 2 ** 31)
  ca.amount = 500 + ((amount * 7_919) % 1) ** 3 * 400_000
}

/** Roots come, and are given up. The last one is for the time without faults. */
function list(world: World, who: number, amount: number): void {
  const count = world.fixtures.authorities.length - 1
  const bits = 1 + (who % (2 ** count - 1))
  world.ca.listed = Array.from({ length: count }, (_, index) => index).filter(index => (bits >>> index) & 1)
  world.ca.signer = world.ca.listed[Math.floor(amount * world.ca.listed.length)] ?? 0
  world.dispatch({ kind: 'caChanged', change: { kind: 'roots' } })
}

function sign(world: World, who: number): void {
  world.ca.signer = who % (world.fixtures.authorities.length - 1)
}

function changeRoot(world: World, who: number, action: 'hold' | 'resume' | 'drop'): void {
  world.changeRoot(fingerprintOf(world, who), action)
}

function toggleOwn({ ca, ...world }: World, who: number): void {
  const id = world.ids[who % world.ids.length]
  if (id && !ca.own.delete(id)) ca.own.add(id)
}

function fingerprintOf({ fixtures: { authorities } }: World, who: number): string {
  return authorities[who % (authorities.length - 1)]?.root.fingerprint ?? ''
}
