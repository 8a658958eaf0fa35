/** Drives `decide` as the engine does, without sockets, promises and keys: what it wants done is done after random delays. */

import { CAError } from '../../src/contract/ca-client.ts'
import { asShownCAError } from '../../src/contract/ca-failure.ts'
import type { SealedKey } from '../../src/contract/key-vault.ts'
import { decide } from '../../src/decide/decide.ts'
import type { Action, Answer, Event, Found, Judged, RestoreSource } from '../../src/decide/event.ts'
import type { Policy } from '../../src/decide/turn.ts'
import { nextWake } from '../../src/decide/wake.ts'
import type { TrustBundleSecret } from '../../src/secrets/secret-item.ts'
import type { SpiffeId } from '../../src/spiffe/spiffe-id.ts'
import { type Identity, type Request, usable } from '../../src/state/identity.ts'
import type { Issued } from '../../src/state/issued.ts'
import { newState, type State } from '../../src/state/state.ts'
import type { ClockJump } from '../../src/time/clock.ts'
import { dropRefusal, type RootAction } from '../../src/trust/rotation-status.ts'
import { MAX_CLOCK_SKEW_MS } from '../../src/x509/ca-answer-verifier.ts'
import { readCrls } from '../../src/x509/crl.ts'
import { Disk } from './disk.ts'
import type { Fixtures } from './fixtures.ts'
import { Limits } from './limits.ts'
import type { Random } from './random.ts'
import { RandomCA } from './random-ca.ts'
import { type Mood, Server } from './server.ts'
import type { Settings } from './settings.ts'

export const TRUST_DOMAIN = 'example.org'
const JUMP_MS = 5_000
/** In one moment: a root leaves after the last leaf under it. */
const MAX_WAKES = 3

/** One call to the CA. Times are milliseconds since the epoch. */
export interface Flight {
  answerAt: number
  deadlineAt: number
  readonly sentIdleMs: number
  abortedWith: Error | undefined
}

interface Read {
  readonly identity: Identity
  readonly from: RestoreSource
  at: number
}

export class World {
  /** Milliseconds since the epoch. */
  now = Date.UTC(2026, 0, 1)
  readonly random: Random
  readonly settings: Settings
  readonly fixtures: Fixtures
  readonly ca: RandomCA
  readonly limits = new Limits()
  readonly ids: readonly SpiffeId[]
  /** What each watcher was notified of last. */
  readonly watched = new Map<SpiffeId, Issued | undefined>()
  /** Somebody asked for them and watches them since; there may have been no room. */
  readonly wishes = new Set<SpiffeId>()
  readonly flights = new Map<Request, Flight>()
  readonly reads: Read[] = []
  readonly rootsAsked: { jump: number; at: number }[] = []
  /** Keys that were made and not wiped. */
  readonly keys = new Set<SealedKey>()
  readonly pending = new Set<SpiffeId>()
  readonly disk = new Disk()
  readonly refused = new Set<string>()
  /** Their streams lost what they had, and ask again. */
  readonly #askAgain = new Set<SpiffeId>()
  /** When each identity was last used or asked for, by what is held; infinite if the clock was set since. */
  readonly usedAt = new Map<SpiffeId, number>()
  wasSetBack = false
  /** Requests that were sent. */
  sent = 0
  /** Milliseconds that the process has waited for events. */
  idleMs = 0
  /** When the CA's list of roots comes; infinite if nobody has asked for it. */
  listAt = Number.POSITIVE_INFINITY
  readonly server: Server
  /** By the names of the bundles: what all who watch them were sent last. */
  readonly published = new Map<string, TrustBundleSecret | undefined>()
  state: State
  readonly policy: Policy
  readonly #served = new WeakSet<Issued>()
  readonly #actions: Action[] = []
  /** Of the timer, as of the last decision: what it leaves undone is due then, whatever the time is by now. */
  wakeAt = Number.POSITIVE_INFINITY
  #wakesInVain = 0
  #isPerforming = false

  constructor(random: Random, settings: Settings, fixtures: Fixtures) {
    this.random = random
    this.settings = settings
    this.fixtures = fixtures
    this.server = new Server(random)
    this.ids = Array.from(
      { length: settings.identities },
      (_, index): SpiffeId => `spiffe://${TRUST_DOMAIN}/w/${index}`,
    )
    this.ca = new RandomCA(random, fixtures.authorities, this.keys)
    this.policy = this.#policy()
    this.state = this.#open()
    this.#askRoots(0)
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
    for (let action = this.#actions.shift(); action; action = this.#actions.shift()) this.#perform(action)
    this.#isPerforming = false
  }

  /** Streams that lost a certificate ask again, not inside the call that took it. */
  askAgain(): void {
    for (const id of this.#askAgain) {
      this.#askAgain.delete(id)
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
        this.#end(request, flight)
        return
      }
    const read = this.reads.findIndex(({ at }) => at <= now)
    if (read !== -1) {
      for (const each of this.reads.splice(read, 1)) this.#endRead(each)
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
    this.#notify(id)
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
    for (const [request, flight] of this.flights) this.#end(request, flight)
    for (const read of this.reads.splice(0)) this.#endRead(read)
    this.server.closeAll()
    if (this.keys.size > 0) throw new Error(`${this.keys.size} keys are left after the end`)
    this.rootsAsked.length = 0
    this.published.clear()
    this.watched.clear()
    this.wishes.clear()
    this.#askAgain.clear()
    this.pending.clear()
    this.disk.open()
    this.state = this.#open()
    this.wakeAt = Number.POSITIVE_INFINITY
    const { roots } = this.disk
    if (roots.length > 0) this.dispatch({ kind: 'rootsRestored', roots, read: this.fixtures.read })
    this.#askRoots(0)
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
    const root = bundle?.root(fingerprint)
    if (!bundle || !root) return
    if (action === 'drop' && dropRefusal(bundle, root) !== undefined) return
    this.dispatch({ kind: 'rootChanged', bundle, fingerprint, action })
  }

  #policy(): Policy {
    const { random, settings } = this
    const phases = new Map(this.ids.map((id, index) => [id, index / settings.identities]))
    return {
      ...settings,
      random: random.next,
      phaseOf: id => phases.get(id) ?? 0,
      refusalOf: ({ root }) => this.#refusal(root.fingerprint),
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

  #askRoots(afterMs: number): void {
    if (!this.settings.listsRoots) return
    this.listAt = Math.min(this.listAt, this.now + afterMs + this.random.below(200))
  }

  #list(): void {
    this.listAt = Number.POSITIVE_INFINITY
    if (this.ca.mode === 'absent' || this.ca.mode === 'silent') {
      this.#askRoots(5_000)
      return
    }
    const read = { roots: this.ca.rootsOf(this.ca.listed), rejected: [], isWhole: true, validFrom: undefined }
    this.dispatch({ kind: 'rootsListed', read })
  }

  #publish(name: string, secret: TrustBundleSecret | undefined): void {
    this.published.set(name, secret)
    if (secret && name === `spiffe://${TRUST_DOMAIN}`) this.server.push(secret, this.now)
  }

  #seeJump(jump: ClockJump): void {
    this.dispatch({ kind: 'clockJumped', jump })
  }

  #refusal(fingerprint: string): string | undefined {
    return this.refused.has(fingerprint) ? 'clients refuse it' : undefined
  }

  #perform(action: Action): void {
    switch (action.kind) {
      case 'fetch':
        this.#fetch(action.request)
        break
      case 'abort':
        this.#abort(action.request, action.reason)
        break
      case 'restore':
        if (this.reads.some(({ identity }) => identity === action.identity))
          throw new Error(`${action.identity.id} is read twice at once`)
        this.reads.push({ ...action, at: this.now + this.random.below(300) })
        break
      case 'serve':
        this.#serve(action.identity)
        break
      case 'withdraw':
        this.#withdraw(action.id)
        break
      case 'publish':
        this.#publish(action.bundle.name, action.bundle.secret)
        break
      case 'storeRoots':
        this.disk.roots = action.bundle.stored()
        break
      case 'wipe':
        action.key.wipe()
        break
      case 'store':
        this.disk.put(action.identity)
        break
      case 'forget':
        this.pending.delete(action.id)
        this.disk.forget(action.id)
        break
      case 'askRoots':
        this.#askRoots(0)
        if (action.jump !== undefined)
          this.rootsAsked.push({ jump: action.jump, at: this.now + this.random.below(2_000) })
        break
      case 'report':
        if (action.event.kind === 'retry-planned' && !Number.isFinite(action.event.at))
          throw new Error(`${action.name} is tried again at ${action.event.at}`)
        break
      case 'accept':
        action.accepted()
        break
      case 'clearStore':
        break
    }
  }

  #fetch(request: Request): void {
    const { settings, now } = this
    const index = this.ids.indexOf(request.of.id)
    this.sent++
    this.limits.fetched(request.of.id)
    this.flights.set(request, {
      answerAt: now + this.ca.latency(index),
      deadlineAt: now + settings.timeoutMs,
      sentIdleMs: this.idleMs,
      abortedWith: undefined,
    })
  }

  #abort(request: Request, reason: Error): void {
    const flight = this.flights.get(request)
    if (flight) flight.abortedWith ??= reason
  }

  #end(request: Request, flight: Flight): void {
    this.flights.delete(request)
    const waitedMs = Math.min(this.now - request.sentAt, this.idleMs - flight.sentIdleMs)
    const result = this.#resultOf(request, flight)
    if (result instanceof CAError) this.dispatch({ kind: 'failed', request, failure: result, waitedMs })
    else this.dispatch({ kind: 'answered', request, answer: result, waitedMs })
  }

  #resultOf(request: Request, { abortedWith, answerAt }: Flight): Answer | CAError {
    if (abortedWith) return asShownCAError(abortedWith)
    if (answerAt > this.now) return new CAError('timeout', 'no answer')
    const { id } = request.of
    const answer = this.ca.answer(request, this.ids.indexOf(id), this.now, each => this.#refusal(each))
    if (answer instanceof CAError) return answer
    const fault = this.#faultOf(answer)
    if (fault === undefined) {
      this.pending.delete(id)
      return answer
    }
    answer.key.wipe()
    return new CAError('bad-response', fault)
  }

  /** As the verifier judges. */
  #faultOf({ verified: { rootFingerprint, notBefore, notAfter }, offered }: Judged): string | undefined {
    if (notAfter <= this.now) return 'it has expired'
    if (notBefore > this.now + MAX_CLOCK_SKEW_MS) return 'it is not valid yet'
    const isKnown = this.state.bundles.anchorsFor(offered).some(({ fingerprint }) => fingerprint === rootFingerprint)
    return isKnown ? undefined : 'its root is not trusted'
  }

  #endRead({ identity, from }: Read): void {
    this.dispatch({ kind: 'restored', identity, from, found: this.#found(identity, from) })
  }

  #found({ id }: Identity, from: RestoreSource): Found | string | undefined {
    if (this.disk.isBroken) return 'the disk is broken'
    const stored = this.disk.get(id)
    if (!stored || (from === 'bootstrap') !== stored.isProvisional) return undefined
    const signer = this.ca.signer
    this.ca.signer = this.#authorityOf(stored.rootFingerprint)
    const judged = this.ca.certificate(id, stored, each => this.#refusal(each))
    this.ca.signer = signer
    const { verified, offered, key } = judged
    const { receivedAt, phase, wish, isProvisional } = stored
    const fault = this.#faultOf(judged)
    if (fault === undefined) return { verified, offered, key, receivedAt, phase, wish, isProvisional }
    key.wipe()
    return fault
  }

  #authorityOf(fingerprint: string): number {
    return this.fixtures.authorities.findIndex(({ root }) => root.fingerprint === fingerprint)
  }

  /** Roots first: whoever verifies a leaf has its root by then. */
  #serve({ id, current }: Identity): void {
    if (
      current &&
      !this.#served.has(current) &&
      !this.published.get(current.bundle.name)?.has(current.root.fingerprint)
    )
      throw new Error(`${id} is served under a root that was not published`)
    if (current) this.#served.add(current)
    this.#notify(id)
  }

  #notify(id: SpiffeId): void {
    if (!this.watched.has(id)) return
    const identity = this.state.identities.get(id)
    const issued = identity && usable(identity, this.now)
    if (issued?.secret.privateKey.isWiped) throw new Error(`${id} is served with a wiped key`)
    if (issued && identity?.spare === issued) throw new Error(`${id} has the one in use as its spare`)
    this.watched.set(id, issued)
  }

  #withdraw(id: SpiffeId): void {
    if (!this.watched.has(id)) return
    this.watched.set(id, undefined)
    this.#askAgain.add(id)
  }
}

function endOf({ answerAt, deadlineAt, abortedWith }: Flight): number {
  return abortedWith ? Number.NEGATIVE_INFINITY : Math.min(answerAt, deadlineAt)
}
