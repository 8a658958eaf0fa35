/** A node: core's state and its decisions, with a modelled CA instead of keys, calls and certificates. */
import { plainKeyVault, SealedKey, type SecretEvent } from '@livery/core'
import {
  type Action,
  type Answer,
  decide,
  type Event,
  judge,
  newState,
  nextWake,
  type Policy,
  type Request,
  type State,
  schedulingOf,
  slotOf,
} from '@livery/core/decide'
import { CAError, type SpiffeId } from '@livery/core/plugin'
import { BACKDATE_MS, type ModelCA, type Outcome } from './model-ca.ts'
import type { Replica } from './replica.ts'
import type { VirtualTime } from './virtual-time.ts'

export interface NodeOptions {
  readonly time: VirtualTime
  readonly ca: ModelCA
  /** How the node learns of the CA's roots. */
  readonly roots: 'push' | 'poll' | 'none'
  readonly roundTripMs: number
  readonly trustDomain: string
  /** How far its clock is ahead, milliseconds. */
  readonly skewMs: number
  readonly random: () => number
  readonly ttlSeconds: number
  /** How long a new root settles, milliseconds; `undefined`: core's default. */
  readonly settleMs?: number | undefined
  readonly onServed: (id: SpiffeId, certificate: Dates) => void
  readonly onWithdrawn: (id: SpiffeId) => void
  readonly onReport: (name: string, event: SecretEvent) => void
}

export interface Dates {
  readonly notBefore: number
  readonly notAfter: number
}

const NO_KEY = new SealedKey(plainKeyVault, new Uint8Array(1))
const EXPECTED = { key: { publicKeyDer: new Uint8Array() }, anchors: [] }
/** The checks that every certificate of the model passes. */
const SOUND = {
  keyMatches: true,
  isCa: false,
  servesTls: true,
  signsHandshakes: true,
  claimsToCertify: false,
  hasTlsKey: true,
}
/** The jitter of core's list of roots: nodes that started together do not ask together. */
const POLL_JITTER = 0.1

export class SimulatedNode {
  readonly #options: NodeOptions
  readonly #replica: Replica
  readonly #state: State
  readonly #policy: Policy
  #wake: { readonly at: number; readonly prevent: () => void } | undefined
  /** Functions that end the open calls. */
  readonly #calls = new Map<Request, () => void>()
  readonly #pollMs: number
  #preventPoll = () => {}
  #serial = 0

  constructor(options: NodeOptions) {
    const { ca, roots, trustDomain, random, ttlSeconds, settleMs } = options
    const rotation = settleMs === undefined ? {} : { settleMs }
    const scheduling = schedulingOf({ ttlSeconds, random, rotation }, roots)
    const slotOffset = random()
    this.#options = options
    this.#pollMs = scheduling.rootsPollMs
    this.#replica = ca.drawReplica()
    this.#state = newState({
      ttlSeconds,
      concurrency: scheduling.concurrency,
      idle: scheduling.idle,
      watched: { has: () => true },
      trustDomain,
      pending: { has: () => false },
      stored: undefined,
      clearStoreAt: Number.POSITIVE_INFINITY,
      rotation: scheduling.rotation,
      dispatch: event => this.#dispatch(event),
    })
    this.#policy = {
      ...scheduling,
      revokesMissingRoots: false,
      slotOf: id => (slotOf(id) + slotOffset) % 1,
      refusalOf: () => undefined,
    }
    this.#askRoots()
    ca.onRoots(() => this.#dispatch({ kind: 'caChanged', change: { kind: 'roots' } }))
  }

  /** Adds an identity that is watched from the beginning. */
  add(id: SpiffeId): void {
    this.#dispatch({ kind: 'added', id, tokenFile: undefined, wish: { dnsNames: [] } })
  }

  #dispatch(event: Event): void {
    for (const action of decide(this.#state, event, this.#now(), this.#policy)) this.#perform(action)
    this.#armWake()
  }

  #perform(action: Action): void {
    const { onServed, onWithdrawn, onReport } = this.#options
    if (action.kind === 'fetch') this.#fetch(action.request)
    else if (action.kind === 'abort') this.#abort(action.request, action.reason)
    else if (action.kind === 'serve') {
      const current = this.#state.identities.get(action.id)?.current
      if (current) onServed(action.id, current.secret)
      else onWithdrawn(action.id)
    } else if (action.kind === 'askRoots') this.#askRoots()
    else if (action.kind === 'report') onReport(action.name, action.event)
  }

  #fetch(request: Request): void {
    const { ca, time } = this.#options
    const outcome = ca.call(this.#replica)
    const prevent = time.at(outcome.at, () => this.#end(request, outcome))
    this.#calls.set(request, prevent)
  }

  #abort(request: Request, reason: Error): void {
    const { time } = this.#options
    const prevent = this.#calls.get(request)
    if (!prevent) return
    prevent()
    this.#calls.delete(request)
    const failure = reason instanceof CAError ? reason : new CAError('unavailable', reason.message)
    // The end must not precede the other actions of the same decision.
    time.at(time.now(), () => this.#end(request, { at: time.now(), failure }))
  }

  #end(request: Request, { failure, signedAt = 0 }: Outcome): void {
    this.#calls.delete(request)
    const waitedMs = this.#now() - request.sentAt
    const answer = failure ?? this.#judge(request, signedAt)
    this.#dispatch({ kind: 'answered', request, answer, waitedMs })
  }

  /** Judges by core's own rules, over the facts that a certificate of the model would have; its root comes with it. */
  #judge({ of: { id }, ttlSeconds }: Request, signedAt: number): Answer | CAError {
    const { roots, signingRoot } = this.#options.ca
    const dates = { notBefore: signedAt - BACKDATE_MS, notAfter: signedAt + ttlSeconds * 1_000 }
    const serialNumber = `${this.#serial++}`
    const path = { chainPem: '', version: serialNumber, rootFingerprint: signingRoot.fingerprint, ...dates }
    try {
      const facts = { ...SOUND, uris: [id], dnsNames: [], otherNames: 0, ...dates, serialNumber, path }
      const verified = judge(facts, { ...EXPECTED, identity: id, now: this.#now() })
      const offered = { roots, rejected: [], isWhole: true, validFrom: undefined }
      return { verified, offered, isOwn: false, key: NO_KEY, source: 'signed', hint: undefined, accepted: undefined }
    } catch (error) {
      if (error instanceof CAError) return error
      throw error
    }
  }

  /** The list comes after a round trip, and again after the poll interval. */
  #askRoots(): void {
    const { time, ca, roots, roundTripMs, random } = this.#options
    if (roots === 'none') return
    time.at(time.now() + roundTripMs, () => {
      const read = { roots: ca.roots, rejected: [], isWhole: true, validFrom: undefined }
      this.#dispatch({ kind: 'rootsListed', read })
      const pollMs = this.#pollMs * (1 - POLL_JITTER * random())
      this.#preventPoll()
      if (roots === 'poll') this.#preventPoll = time.at(time.now() + pollMs, () => this.#askRoots())
    })
  }

  #armWake(): void {
    const { time, skewMs } = this.#options
    const at = nextWake(this.#state, this.#now())
    if (at === Number.POSITIVE_INFINITY || (this.#wake && this.#wake.at <= at)) return
    this.#wake?.prevent()
    const prevent = time.at(at - skewMs, () => {
      this.#wake = undefined
      this.#dispatch({ kind: 'woke' })
    })
    this.#wake = { at, prevent }
  }

  #now(): number {
    return this.#options.time.now() + this.#options.skewMs
  }
}
