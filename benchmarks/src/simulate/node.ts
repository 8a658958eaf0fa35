/** A node: core's state and its decisions, with a modelled CA in the place of keys, calls and certificates. */
import {
  CAError,
  nodeCertificateVerifier,
  plainKeyVault,
  SealedKey,
  type SecretEvent,
  type SpiffeId,
} from '@livery/core'
import {
  type Action,
  DEFAULT_OPTIONS,
  decide,
  defaultOverlapMs,
  defaultSettleMs,
  type Event,
  type Identity,
  judge,
  newState,
  nextWake,
  OWN_SETTLE_MS,
  type Policy,
  phaseOf,
  type Request,
  type State,
  TrustStore,
} from '@livery/core/decide'
import { BACKDATE_MS, type ModelCA, type Outcome } from './model-ca.ts'
import type { Replica } from './replica.ts'
import type { VirtualTime } from './virtual-time.ts'

export interface NodeOptions {
  readonly time: VirtualTime
  readonly ca: ModelCA
  /** How it hears of the CA's roots. */
  readonly roots: 'push' | 'poll' | 'none'
  readonly trustDomain: string
  /** How far its clock is ahead, milliseconds. */
  readonly skewMs: number
  readonly random: () => number
  readonly ttlSeconds: number
  /** How long a new root settles, milliseconds; `undefined`: core's default. */
  readonly settleMs: number | undefined
  readonly watcher: Watcher
}

/** A certificate that comes into use. */
export type Served = NonNullable<Identity['current']>['secret']

/** Hears what the workloads of a node get, and what it reports. */
export interface Watcher {
  served(id: SpiffeId, certificate: Served): void
  withdrawn(id: SpiffeId): void
  reported(name: string, event: SecretEvent): void
}

const NO_KEY = new SealedKey(plainKeyVault, new Uint8Array(1))
/** All that no placeholder can fail. */
const SOUND = {
  keyMatches: true,
  isCa: false,
  servesTls: true,
  signsHandshakes: true,
  claimsToCertify: false,
  hasTlsKey: true,
}
const EXPECTED = { key: { publicKeyDer: new Uint8Array() }, anchors: [] }

export class SimulatedNode {
  readonly #options: NodeOptions
  readonly #replica: Replica
  readonly #trust: TrustStore
  readonly #state: State
  readonly #policy: Policy
  readonly #events: Event[] = []
  readonly #actions: Action[] = []
  #isDeciding = false
  #isPerforming = false
  #wake: { readonly at: number; readonly end: Disposable } | undefined
  readonly #calls = new Map<Request, Disposable>()
  #serial = 0

  /** Every identity is watched as soon as it is added. */
  constructor(options: NodeOptions) {
    const { time, ca, roots, trustDomain, skewMs, random, ttlSeconds, watcher } = options
    const { rotation, retry, concurrency, idle, rootsPollMs: pollMs, timeoutMs } = DEFAULT_OPTIONS
    const settleMs = options.settleMs ?? defaultSettleMs({ ...rotation, roots, pollMs, lifetimeMs: ttlSeconds * 1_000 })
    const rootList = ca.rootList()
    this.#options = options
    this.#replica = ca.drawReplica()
    this.#trust = new TrustStore({
      ca: rootList,
      verifier: nodeCertificateVerifier,
      revokesMissingRoots: false,
      clock: time.clock(skewMs),
      random,
      trustDomain,
      settleMs,
      ownSettleMs: options.settleMs ?? OWN_SETTLE_MS,
      pollMs,
      ackWaitMs: rotation.ackWaitMs,
      overlapMs: defaultOverlapMs(settleMs),
      timeoutMs,
      retry,
      rootSources: [],
      crlSources: [],
      record: (name, event) => watcher.reported(name, event),
      dispatch: event => this.#dispatch(event),
    })
    this.#state = newState({
      watched: { has: () => true },
      trust: this.#trust,
      pending: { has: () => false },
      stored: undefined,
      clearStoreAt: Number.POSITIVE_INFINITY,
      ttlSeconds,
      concurrency,
      idle,
    })
    const phaseOffset = random()
    this.#policy = {
      ...DEFAULT_OPTIONS,
      rotation: { ...rotation, settleMs },
      random,
      phaseOf: id => (phaseOf(id) + phaseOffset) % 1,
      refusalOf: () => undefined,
    }
    this.#trust.start()
    rootList.subscribe?.(change => this.#dispatch({ kind: 'caChanged', change }))
    time.settle()
  }

  add(id: SpiffeId): void {
    this.#dispatch({ kind: 'added', id, tokenFile: undefined })
  }

  /** As core's engine does it. */
  #dispatch(event: Event): void {
    this.#events.push(event)
    if (this.#isDeciding) return
    this.#isDeciding = true
    for (let next = this.#events.shift(); next; next = this.#events.shift())
      for (const action of decide(this.#state, next, this.#now(), this.#policy)) this.#actions.push(action)
    this.#isDeciding = false
    if (this.#isPerforming) return
    this.#isPerforming = true
    for (let action = this.#actions.shift(); action; action = this.#actions.shift()) this.#perform(action)
    this.#isPerforming = false
    this.#armWake()
  }

  #perform(action: Action): void {
    const { watcher, time } = this.#options
    switch (action.kind) {
      case 'fetch':
        this.#fetch(action.request)
        break
      case 'abort':
        this.#abort(action.request, action.reason)
        break
      case 'serve':
        if (action.identity.current) watcher.served(action.identity.id, action.identity.current.secret)
        break
      case 'withdraw':
        watcher.withdrawn(action.id)
        break
      case 'release':
        action.issued.bundle.unlease(action.issued.root.fingerprint)
        this.#trust.schedulePrune(action.issued.bundle)
        break
      case 'askRoots':
        void (action.isChanged ? this.#trust.refreshAgain() : this.#trust.refresh())
        time.settle()
        break
      case 'report':
        watcher.reported(action.name, action.event)
        break
    }
  }

  #fetch(request: Request): void {
    const { ca, time } = this.#options
    const outcome = ca.call(this.#replica)
    const call = time.at(outcome.at, () => {
      this.#calls.delete(request)
      this.#end(request, outcome)
    })
    this.#calls.set(request, call)
  }

  #abort(request: Request, reason: Error): void {
    this.#calls.get(request)?.[Symbol.dispose]()
    if (!this.#calls.delete(request) || !(reason instanceof CAError)) return
    this.#end(request, { at: this.#options.time.now(), failure: reason })
  }

  #end(request: Request, outcome: Outcome): void {
    const waitedMs = this.#now() - request.sentAt
    const answer = outcome.failure ?? this.#judge(request, outcome.signedAt)
    if (answer instanceof CAError) this.#dispatch({ kind: 'failed', request, failure: answer, waitedMs })
    else this.#dispatch({ kind: 'answered', request, answer, waitedMs })
  }

  /** The judgement is core's own, over the facts that a certificate of the model would have; its root comes with it. */
  #judge(
    { of: { id }, ttlSeconds }: Request,
    signedAt: number,
  ): Extract<Event, { kind: 'answered' }>['answer'] | CAError {
    const { roots, signingRoot } = this.#options.ca
    const dates = { notBefore: signedAt - BACKDATE_MS, notAfter: signedAt + ttlSeconds * 1_000 }
    const serialNumber = `${this.#serial++}`
    const rootFingerprint = signingRoot.fingerprint
    const offered = { identity: id, isOwn: false, roots, rejected: [], isWhole: true }
    const path = () => ({ chainPem: '', version: serialNumber, rootFingerprint, ...dates })
    try {
      const facts = { ...SOUND, uris: [id], ...dates, serialNumber, path }
      const verified = judge(facts, { ...EXPECTED, identity: id, now: this.#now() })
      return { verified, offered, key: NO_KEY, source: 'signed', hint: undefined, accepted: undefined }
    } catch (error) {
      if (error instanceof CAError) return error
      throw error
    }
  }

  #armWake(): void {
    const { time, skewMs } = this.#options
    const at = nextWake(this.#state, this.#now())
    if (at === Number.POSITIVE_INFINITY || (this.#wake && this.#wake.at <= at)) return
    this.#wake?.end[Symbol.dispose]()
    const end = time.at(at - skewMs, () => {
      this.#wake = undefined
      this.#dispatch({ kind: 'woke' })
    })
    this.#wake = { at, end }
  }

  #now(): number {
    return this.#options.time.now() + this.#options.skewMs
  }
}
