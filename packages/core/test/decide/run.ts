/** One run: random events, then a time without faults in which all must come right. */

import { usable } from '../../src/state/identity.ts'
import type { Fixtures } from './fixtures.ts'
import { checkAtRest, checkInvariants } from './invariants.ts'
import { apply, drawOperations, type Operation } from './operations.ts'
import { Random } from './random.ts'
import { drawSettings, type Settings } from './settings.ts'
import { World } from './world.ts'

export interface Run {
  readonly seed: number
  readonly settings: Settings
  readonly operations: readonly Operation[]
}

export interface Outcome {
  /** The number of decisions. */
  readonly steps: number
  /** The maxima, as shares of the limits. */
  readonly fetches: number
  readonly wakes: number
  /** Absent if all went well. */
  readonly failure: { readonly error: unknown; readonly at: number } | undefined
}

export function drawRun(seed: number, operations: number): Run {
  const random = new Random(seed)
  return { seed, settings: drawSettings(random), operations: drawOperations(random, operations) }
}

export function play({ seed, settings, operations }: Run, fixtures: Fixtures): Outcome {
  const world = new World(new Random(seed ^ 0x5eed), settings, fixtures)
  const { limits } = world
  let steps = 0
  const step = (act: () => void): void => {
    steps++
    limits.step()
    act()
    world.askAgain()
    checkInvariants(world)
  }
  const advance = (ms: number): void => {
    world.advance(ms, () => {
      steps++
      checkInvariants(world)
    })
    checkAtRest(world)
  }
  let at = 0
  let error: unknown
  try {
    for (const operation of operations) {
      advance(operation.after)
      step(() => apply(world, operation))
      at++
    }
    step(() => endFaults(world, seed % 2 === 0 && settings.listsRoots))
    advance(promisedMs(settings))
    checkAllIsWell(world)
    advance(rolloutMs(settings))
    checkAllIsWell(world)
    checkRoots(world)
    step(() => world.restart())
  } catch (thrown) {
    error = thrown
  }
  const { fetches, wakes } = limits.most
  return { steps, fetches, wakes, failure: error === undefined ? undefined : { error, at } }
}

/** `keepsRoots`: the CA has no new root, so nothing but time brings back what has failed. */
function endFaults(world: World, keepsRoots: boolean): void {
  const { ca, fixtures } = world
  const last = fixtures.authorities.length - 1
  ca.mode = 'good'
  ca.latencyMs = 20
  if (!keepsRoots) ca.listed = [last]
  ca.signer = ca.listed[0] ?? last
  for (const { root } of fixtures.authorities) world.changeRoot(root.fingerprint, 'resume')
  world.refused.clear()
  world.pending.clear()
  ca.own.clear()
  world.server.closeAll()
  world.disk.isBroken = false
  world.crl(undefined)
  world.dispatch({ kind: 'caChanged', change: { kind: 'roots' } })
}

/**
 * The time after the last fault: a request that hangs ends at its deadline, its backoff is at most 1.2 times the longest, a pause
 * that the CA asked for twice the longest; then a few seconds for all to have their turn.
 */
function promisedMs({ timeoutMs, retry: { maxMs } }: Settings): number {
  return Math.max(timeoutMs + 1.2 * maxMs, 2 * maxMs) + 10_000
}

function checkAllIsWell({ state, now }: World): void {
  for (const identity of state.identities.values()) {
    const { id, work, health } = identity
    if (work.kind === 'idle') continue
    if (!usable(identity, now)) throw new Error(`${id} has no certificate (${work.kind}, ${health.kind})`)
    if (health.kind === 'failing') throw new Error(`${id} still fails (${work.kind})`)
    if (identity.revoked) throw new Error(`${id} still has a revoked certificate`)
  }
  if (state.queue.waiting > 0) throw new Error(`${state.queue.waiting} still wait for their turn`)
}

/** Roots settle and clients are waited for; then leaves follow in turn, at most ten minutes. */
function rolloutMs({ rotation: { settleMs, ackWaitMs } }: Settings): number {
  return settleMs + Math.max(settleMs, ackWaitMs) + 600_000 + 60_000
}

/** Roots of one identity come from its last answer; what was planned before the clock was set back comes later. */
function checkRoots({ state, settings, wasSetBack }: World): void {
  if (!settings.listsRoots || wasSetBack) return
  for (const { id, current } of state.identities.values())
    if (current && !current.bundle.owner && current.bundle.isGivenUp(current.root.fingerprint))
      throw new Error(`${id} still has a leaf under a root that was given up`)
}

/** A shorter run that fails for the same reason, by leaving out ever smaller parts. */
export function shorten(run: Run, fixtures: Fixtures, message: string): Run {
  let shortest = run
  for (let size = Math.ceil(run.operations.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < shortest.operations.length; ) {
      const operations = shortest.operations.filter((_, index) => index < from || index >= from + size)
      const shorter = { ...shortest, operations }
      const { failure } = play(shorter, fixtures)
      if (failure && messageOf(failure.error) === message) shortest = shorter
      else from += size
    }
  }
  return shortest
}

/** The text without numbers, which differ from run to run. */
export function messageOf(error: unknown): string {
  return String(error instanceof Error ? error.message : error).replaceAll(/\d+/g, '#')
}
