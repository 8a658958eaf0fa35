/** Drives `decide` as the engine does: events from outside, and all that falls due, in the order of time. */

import { decide } from '../../src/decide/decide.ts'
import type { Action, Event, Policy } from '../../src/decide/step.ts'
import { nextWake } from '../../src/decide/wake.ts'
import type { SpiffeId } from '../../src/spiffe/spiffe-id.ts'
import { newState, type State } from '../../src/state/state.ts'
import type { ClockJump } from '../../src/time/clock.ts'
import { dropRefusal, type RootAction } from '../../src/trust/rotation-status.ts'
import { readCrls } from '../../src/x509/crl.ts'
import type { Fixtures } from './fixtures.ts'
import { endOf } from './flight.ts'
import { Performer, TRUST_DOMAIN } from './performer.ts'
import type { Random } from './random.ts'
import type { Mood } from './server.ts'
import type { Settings } from './settings.ts'

const JUMP_MS = 5_000
/** The most wakes in one moment: a root leaves after the last leaf under it. */
const MAX_WAKES = 3

export class World extends Performer {
  /** Somebody asked for them and watches them since; there may have been no room. */
  readonly wishes = new Set<SpiffeId>()
  /** When each identity was last used or asked for, by what is held; infinite if the clock was set since. */
  readonly usedAt = new Map<SpiffeId, number>()
  wasSetBack = false
  state: State
  readonly policy: Policy
  readonly #actions: Action[] = []
  /** The time of the timer by the last decision: undone work is due then, whatever the time is by now. */
  wakeAt = Number.POSITIVE_INFINITY
  #wakesInVain = 0
  #isPerforming = false

  constructor(random: Random, settings: Settings, fixtures: Fixtures) {
    super(random, settings, fixtures)
    this.policy = this.#policy()
    this.state = this.#open()
    this.askRoots(0)
  }

  id(who: number): SpiffeId {
    const id = this.ids[who % this.ids.length]
    if (!id) throw new TypeError('there is no identity')
    return id
  }

  /** As the engine's. */
  dispatch(event: Event): void {
    this.#actions.push(...decide(this.state, event, this.now, this.policy))
    this.wakeAt = nextWake(this.state, this.now)
    if (this.#isPerforming) return
    this.#isPerforming = true
    for (let action = this.#actions.shift(); action; action = this.#actions.shift()) this.perform(action)
    this.#isPerforming = false
  }

  /** Streams that lost a certificate ask again, not inside the call that took it. */
  askAgain(): void {
    for (const id of this.askingAgain) {
      this.askingAgain.delete(id)
      if (this.wishes.has(id) && !this.state.identities.has(id)) this.dispatch({ kind: 'asked', id })
    }
  }

  /** When something happens next without the driver; infinite if nothing will. */
  get nextAt(): number {
    let at = Math.min(this.wakeAt, this.listAt, this.server.nextAt)
    for (const flight of this.flights.values()) at = Math.min(at, endOf(flight))
    for (const read of this.reads) at = Math.min(at, read.at)
    for (const asked of this.rootsAsked) at = Math.min(at, asked.at)
    return at
  }

  /** Has what is due next happen. */
  runNext(): void {
    const { now } = this
    for (const [request, flight] of this.flights)
      if (endOf(flight) <= now) {
        this.end(request, flight)
        return
      }
    const read = this.reads.findIndex(({ at }) => at <= now)
    if (read !== -1) {
      for (const each of this.reads.splice(read, 1)) this.endRead(each)
      return
    }
    const asked = this.rootsAsked.findIndex(({ at }) => at <= now)
    if (asked !== -1) {
      for (const { jump } of this.rootsAsked.splice(asked, 1)) this.dispatch({ kind: 'rootsAsked', jump })
      return
    }
    if (this.server.nextAt <= now) {
      this.server.answerNext(now)
      return
    }
    if (this.listAt <= now) {
      this.#list()
      return
    }
    this.limits.woke()
    this.dispatch({ kind: 'woke' })
    this.#wakesInVain = this.wakeAt <= now ? this.#wakesInVain + 1 : 0
    if (this.#wakesInVain > MAX_WAKES) throw new Error('a wake finds nothing to do, and is due again at once')
  }

  /** Lets what falls due meanwhile happen, each at its time, and calls `checked` after it. */
  advance(ms: number, checked: () => void): void {
    const end = this.now + ms
    for (let next = this.nextAt; next <= end; next = this.nextAt) {
      this.moveTo(next)
      this.limits.step()
      this.runNext()
      this.askAgain()
      checked()
    }
    this.moveTo(end)
  }

  /** Time passes. */
  moveTo(time: number): void {
    if (time <= this.now) return
    this.idleMs += time - this.now
    this.limits.passed(this.idleMs)
    this.now = time
  }

  /** The clock is set, or the machine sleeps: what is relative does not move with it. */
  jump(ms: number): void {
    this.now += ms
    this.wasSetBack ||= ms < 0
    for (const id of this.ids) this.usedAt.set(id, Number.POSITIVE_INFINITY)
    for (const flight of this.flights.values()) {
      flight.answerAt += ms
      if (ms < 0) flight.deadlineAt += ms
    }
    for (const read of this.reads) read.at += ms
    this.server.move(ms)
    if (ms < 0) for (const asked of this.rootsAsked) asked.at += ms
    this.listAt += ms
    if (Math.abs(ms) >= JUMP_MS) this.#seeJump({ kind: ms > 0 ? 'forward' : 'back', ms: Math.abs(ms) })
  }

  /** The process does not run for a while. */
  stall(ms: number): void {
    this.now += ms
    if (ms >= JUMP_MS) this.#seeJump({ kind: 'stopped', ms })
  }

  watch(id: SpiffeId): void {
    if (this.watched.has(id)) return
    this.watched.set(id, undefined)
    this.dispatch({ kind: 'watched', id })
    this.notify(id)
  }

  unwatch(id: SpiffeId): void {
    this.wishes.delete(id)
    if (!this.watched.delete(id)) return
    this.dispatch({ kind: 'unwatched', id })
  }

  /** The process ends, and the next one begins with what is on the disk. */
  restart(): void {
    this.disk.close()
    this.dispatch({ kind: 'closed' })
    for (const [request, flight] of this.flights) this.end(request, flight)
    for (const read of this.reads.splice(0)) this.endRead(read)
    this.server.closeAll()
    if (this.keys.size > 0) throw new Error(`${this.keys.size} keys are left after the end`)
    this.rootsAsked.length = 0
    this.published.clear()
    this.watched.clear()
    this.wishes.clear()
    this.askingAgain.clear()
    this.pending.clear()
    this.disk.open()
    this.state = this.#open()
    this.wakeAt = Number.POSITIVE_INFINITY
    const { roots } = this.disk
    if (roots.length > 0) this.dispatch({ kind: 'rootsRestored', roots, read: this.fixtures.read })
    this.askRoots(0)
  }

  /** One more stream of the server. */
  openStream(mood: Mood): void {
    const bundles = [...this.state.bundles.byTrustDomain.values()].flatMap(({ secret }) => secret ?? [])
    this.server.open(this.state.receipts, mood, bundles, this.now)
  }

  /** The list of this authority; without one the lists are empty. */
  crl(index: number | undefined): void {
    const authority = index === undefined ? undefined : this.fixtures.authorities[index]
    const crls = authority ? readCrls(authority.crl) : []
    this.dispatch({ kind: 'crlsRead', trustDomain: TRUST_DOMAIN, crls, source: 'a file' })
  }

  /** As an operator does. */
  changeRoot(fingerprint: string, action: RootAction): void {
    const bundle = this.state.bundles.get(TRUST_DOMAIN)
    const root = bundle?.roots.get(fingerprint)
    if (!bundle || !root) return
    if (action === 'drop' && dropRefusal(bundle, root) !== undefined) return
    this.dispatch({ kind: 'rootChanged', bundle, fingerprint, action })
  }

  #policy(): Policy {
    const { random, settings } = this
    const slots = new Map(this.ids.map((id, index) => [id, index / settings.identities]))
    return {
      ...settings,
      random: random.next,
      slotOf: id => slots.get(id) ?? 0,
      refusalOf: ({ root }) => this.refusal(root.fingerprint),
    }
  }

  #open(): State {
    const { settings, disk, watched, pending } = this
    return newState({
      watched,
      trustDomain: TRUST_DOMAIN,
      pending,
      stored: settings.hasStore ? { take: id => disk.has(id) } : undefined,
      clearStoreAt: settings.hasStore ? this.now + settings.idle.afterMs : Number.POSITIVE_INFINITY,
      ttlSeconds: settings.ttlSeconds,
      concurrency: settings.concurrency,
      idle: settings.idle,
      rotation: { ...settings.rotation, overlapMs: settings.overlapMs },
      dispatch: event => this.dispatch(event),
    })
  }

  #list(): void {
    this.listAt = Number.POSITIVE_INFINITY
    if (this.ca.mode === 'absent' || this.ca.mode === 'silent') {
      this.askRoots(5_000)
      return
    }
    const read = { roots: this.ca.rootsOf(this.ca.listed), rejected: [], isWhole: true, validFrom: undefined }
    this.dispatch({ kind: 'rootsListed', read })
  }

  #seeJump(jump: ClockJump): void {
    this.dispatch({ kind: 'clockJumped', jump })
  }
}
