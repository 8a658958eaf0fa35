/** Does what `decide` wants done, after random delays, without sockets, promises and keys: the CA, the disk and those who watch. */

import { CAError } from '../../src/contract/ca-client.ts'
import { asShownCAError } from '../../src/contract/ca-failure.ts'
import { MAX_CLOCK_SKEW_MS } from '../../src/contract/certificate-verifier.ts'
import type { SealedKey } from '../../src/contract/key-vault.ts'
import { MIN_RENEWAL_INTERVAL_MS } from '../../src/decide/renewal-time.ts'
import type { Action, Answer, Event, Found, Judged, RestoreSource } from '../../src/decide/step.ts'
import type { TrustBundleSecret } from '../../src/secrets/secret-item.ts'
import type { SpiffeId } from '../../src/spiffe/spiffe-id.ts'
import { type Identity, type Issued, type Request, usable } from '../../src/state/identity.ts'
import type { State } from '../../src/state/state.ts'
import { Disk } from './disk.ts'
import type { Fixtures } from './fixtures.ts'
import type { Flight, Read } from './flight.ts'
import { Limits } from './limits.ts'
import type { Random } from './random.ts'
import { RandomCA } from './random-ca.ts'
import { Server } from './server.ts'
import type { Settings } from './settings.ts'

export const TRUST_DOMAIN = 'example.org'

export abstract class Performer {
  /** Milliseconds since the epoch. */
  now = Date.UTC(2026, 0, 1)
  readonly random: Random
  readonly settings: Settings
  readonly fixtures: Fixtures
  readonly ca: RandomCA
  readonly limits = new Limits()
  readonly ids: readonly SpiffeId[]
  /** The last notification of each watcher. */
  readonly watched = new Map<SpiffeId, Issued | undefined>()
  readonly flights = new Map<Request, Flight>()
  /** When those that were put off are to be asked for at the latest. */
  readonly putOff = new Map<Identity, number>()
  readonly reads: Read[] = []
  readonly rootsAsked: { jump: number; at: number }[] = []
  /** Keys that were made and not wiped. */
  readonly keys = new Set<SealedKey>()
  readonly pending = new Set<SpiffeId>()
  readonly disk = new Disk()
  readonly refused = new Set<string>()
  /** Their streams lost what they had, and ask again. */
  protected readonly askingAgain = new Set<SpiffeId>()
  /** Requests that were sent. */
  sent = 0
  /** Milliseconds that the process has waited for events. */
  idleMs = 0
  /** When the CA's list of roots comes; infinite if nobody has asked for it. */
  listAt = Number.POSITIVE_INFINITY
  readonly server: Server
  /** The last secret that watchers were sent, by the name of its bundle. */
  readonly published = new Map<string, TrustBundleSecret | undefined>()
  readonly #served = new WeakSet<Issued>()

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
  }

  abstract state: State

  abstract dispatch(event: Event): void

  protected askRoots(afterMs: number): void {
    if (!this.settings.listsRoots) return
    this.listAt = Math.min(this.listAt, this.now + afterMs + this.random.below(200))
  }

  #publish(name: string, secret: TrustBundleSecret | undefined): void {
    this.published.set(name, secret)
    if (secret && name === `spiffe://${TRUST_DOMAIN}`) this.server.push(secret, this.now)
  }

  protected refusal(fingerprint: string): string | undefined {
    return this.refused.has(fingerprint) ? 'clients refuse it' : undefined
  }

  protected perform(action: Action): void {
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
        this.#serve(action.id)
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
        this.askRoots(0)
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
    this.putOff.delete(request.of)
    if (request.replaces && (request.of.revoked || !usable(request.of, now)))
      throw new Error(`${request.of.id} needs a certificate now, and may be put off`)
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

  protected end(request: Request, flight: Flight): void {
    this.flights.delete(request)
    const waitedMs = Math.min(this.now - request.sentAt, this.idleMs - flight.sentIdleMs)
    const result = this.#resultOf(request, flight)
    if (result instanceof CAError && result.deferred !== undefined)
      this.putOff.set(request.of, Math.ceil(Math.max(result.deferred, this.now + MIN_RENEWAL_INTERVAL_MS)))
    this.dispatch({ kind: 'answered', request, answer: result, waitedMs })
  }

  #resultOf(request: Request, { abortedWith, answerAt }: Flight): Answer | CAError {
    if (abortedWith) return asShownCAError(abortedWith)
    if (answerAt > this.now) return new CAError('timeout', 'no answer')
    const { id } = request.of
    const answer = this.ca.answer(request, this.ids.indexOf(id), this.now, each => this.refusal(each))
    if (answer instanceof CAError) return answer
    const fault = this.#faultOf(id, answer)
    if (fault === undefined) {
      this.pending.delete(id)
      return answer
    }
    answer.key.wipe()
    return new CAError('bad-response', fault)
  }

  /** As the verifier judges. */
  #faultOf(id: SpiffeId, { verified: { rootFingerprint, notBefore, notAfter }, offered }: Judged): string | undefined {
    if (notAfter <= this.now) return 'it has expired'
    if (notBefore > this.now + MAX_CLOCK_SKEW_MS) return 'it is not valid yet'
    const anchors = this.state.bundles.anchorsFor(id, offered.roots)
    const isKnown = anchors.some(({ fingerprint }) => fingerprint === rootFingerprint)
    return isKnown ? undefined : 'its root is not trusted'
  }

  protected endRead({ identity, from }: Read): void {
    this.dispatch({ kind: 'restored', identity, from, found: this.#found(identity, from) })
  }

  #found({ id }: Identity, from: RestoreSource): Found | string | undefined {
    if (this.disk.isBroken) return 'the disk is broken'
    const stored = this.disk.get(id)
    if (!stored || (from === 'bootstrap') !== stored.isProvisional) return undefined
    const signer = this.ca.signer
    this.ca.signer = this.#authorityOf(stored.rootFingerprint)
    const judged = this.ca.certificate(id, stored, each => this.refusal(each))
    this.ca.signer = signer
    const { receivedAt, slot, wish, isProvisional } = stored
    const fault = this.#faultOf(id, judged)
    if (fault === undefined) return { ...judged, receivedAt, slot, wish, isProvisional }
    judged.key.wipe()
    return fault
  }

  #authorityOf(fingerprint: string): number {
    return this.fixtures.authorities.findIndex(({ root }) => root.fingerprint === fingerprint)
  }

  /** Roots first: whoever verifies a leaf has its root by then. */
  #serve(id: SpiffeId): void {
    const current = this.state.identities.get(id)?.current
    if (
      current &&
      !this.#served.has(current) &&
      !this.published.get(current.bundle.name)?.has(current.root.fingerprint)
    )
      throw new Error(`${id} is served under a root that was not published`)
    if (current) this.#served.add(current)
    else if (this.watched.has(id)) this.askingAgain.add(id)
    this.notify(id)
  }

  protected notify(id: SpiffeId): void {
    if (!this.watched.has(id)) return
    const identity = this.state.identities.get(id)
    const issued = identity && usable(identity, this.now)
    if (issued?.secret.privateKey.isWiped) throw new Error(`${id} is served with a wiped key`)
    if (issued && identity?.spare === issued) throw new Error(`${id} has the one in use as its spare`)
    this.watched.set(id, issued)
  }
}
