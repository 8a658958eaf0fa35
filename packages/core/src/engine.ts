/** The one owner of the state: decides every event, performs the actions, and wakes when the next work falls due. */

import { setImmediate } from 'node:timers/promises'
import type { CAError } from './contract/ca-client.ts'
import { asShownCAError } from './contract/ca-failure.ts'
import type { SecretEvent } from './contract/secret-event.ts'
import type { Store } from './contract/store.ts'
import { decide } from './decide/decide.ts'
import type { Action, Answer, Event, Policy } from './decide/step.ts'
import { nextWake } from './decide/wake.ts'
import { type FetchOptions, fetch } from './fetch/fetch.ts'
import { keep, restore } from './fetch/restore.ts'
import type { SecretItem } from './secrets/secret-item.ts'
import { type Listener, notify, type Subscribers, Subscription } from './secrets/watch.ts'
import type { SpiffeId } from './spiffe/spiffe-id.ts'
import { type Identity, type Request, usable } from './state/identity.ts'
import type { State } from './state/state.ts'
import type { Clock } from './time/clock.ts'
import { after, sleep } from './time/deadline.ts'
import type { BundleListeners } from './trust/bundle-listeners.ts'

/** How long leaves wait for the CA's list after a jump of the clock: the CA may be away, and their certificates have ended. */
const ROOTS_WITHIN_MS = 2_000
/** Longer than a set clock stays unseen: by then the withdrawal has run, or the clock is back. */
const LOOK_AGAIN_MS = 10_000

export interface EngineOptions {
  readonly state: State
  readonly policy: Policy
  readonly fetching: FetchOptions
  readonly listeners: BundleListeners
  readonly store: Store | undefined
  /** The watchers of each identity: the engine adds and notifies them. */
  readonly subscribers: Subscribers<SpiffeId>
  readonly report: (name: string, event: SecretEvent) => void
}

export class Engine implements AsyncDisposable {
  readonly state: State
  readonly #options: EngineOptions
  readonly #clock: Clock
  #actions: Action[] = []
  /** The time of the last decision. The next wake counts from it, since work may fall due while actions are performed. */
  #decidedAt = Number.NEGATIVE_INFINITY
  #isPerforming = false
  #timer: { readonly at: number; readonly end: Disposable } | undefined
  readonly #requests = new Map<Request, AbortController>()
  readonly #inFlight = new Set<Promise<void>>()
  readonly #closed = new AbortController()
  readonly #looks = new Map<SpiffeId, Disposable>()
  readonly #unwatched = (id: SpiffeId) => this.dispatch({ kind: 'unwatched', id })

  constructor(options: EngineOptions) {
    this.#options = options
    this.state = options.state
    this.#clock = options.fetching.clock
  }

  /** Decides on `event` at once, and performs the actions before it returns, unless called while actions are performed. */
  dispatch(event: Event): void {
    this.#decidedAt = this.#clock.now()
    for (const action of decide(this.state, event, this.#decidedAt, this.#options.policy)) this.#actions.push(action)
    if (this.#isPerforming) return
    this.#isPerforming = true
    const faults: unknown[] = []
    for (let done = 0; done < this.#actions.length; done++) {
      const action = this.#actions[done]
      try {
        if (action) this.#perform(action)
      } catch (error) {
        // An exception of a listener or a store must not keep the other actions from running.
        faults.push(error)
      }
    }
    this.#actions = []
    this.#isPerforming = false
    this.#armTimer()
    if (faults.length > 0) throw faults[0]
  }

  /** The certificate that the identity serves now. */
  current(id: SpiffeId): SecretItem | undefined {
    const identity = this.state.identities.get(id)
    if (!identity?.current) return undefined
    const issued = usable(identity, this.#clock.now())
    if (!issued) this.#lookAgain(id)
    return issued?.secret
  }

  /** Calls `listener` with each new version, and with `undefined` when it is withdrawn. */
  watch(id: SpiffeId, listener: Listener): Disposable {
    const subscription = new Subscription(this.#options.subscribers, id, listener, this.#unwatched)
    this.dispatch({ kind: 'watched', id })
    return subscription
  }

  /** Resolves when no identity waits for what the store has for it. */
  async restored(): Promise<void> {
    const { restoring } = this.state
    while (restoring.waiting + restoring.running > 0) {
      await Promise.race([...this.#inFlight, setImmediate()])
    }
  }

  /** Forgets everything; resolves when no request is in flight. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new Error('the manager is closed'))
    this.#options.fetching.pending[Symbol.dispose]()
    this.dispatch({ kind: 'closed' })
    this.#timer?.end[Symbol.dispose]()
    for (const look of this.#looks.values()) look[Symbol.dispose]()
    await Promise.all(this.#inFlight)
  }

  #perform(action: Action): void {
    const { fetching, store, listeners, subscribers, report } = this.#options
    switch (action.kind) {
      case 'fetch':
        this.#track(this.#fetch(action.request))
        break
      case 'abort':
        this.#requests.get(action.request)?.abort(action.reason)
        break
      case 'restore':
        this.#track(this.#restore(action.identity, action.from))
        break
      case 'accept':
        this.#tellAccepted(action.identity, action.accepted)
        break
      case 'serve':
        this.#stopLooking(action.id)
        notify(subscribers.get(action.id), this.current(action.id))
        break
      case 'publish':
        listeners.notify(action.bundle)
        break
      case 'storeRoots':
        if (!this.#closed.signal.aborted) store?.putRoots(action.bundle.stored())
        break
      case 'wipe':
        action.key.wipe()
        break
      case 'store':
        if (store) keep(store, this.state.bundles, action.identity)
        break
      case 'forget':
        fetching.pending.drop(action.id)
        if (!this.#closed.signal.aborted) store?.forget(action.id)
        break
      case 'clearStore':
        store?.forgetUntaken()
        break
      case 'askRoots':
        this.#track(this.#askRoots(action))
        break
      case 'report':
        report(action.name, action.event)
        break
    }
  }

  async #fetch(request: Request): Promise<void> {
    const controller = new AbortController()
    this.#requests.set(request, controller)
    const idle = this.#idle()
    const answered = (answer: Answer | CAError) => {
      this.#requests.delete(request)
      // Answers that lay unread while this process was busy say nothing of the CA.
      const waitedMs = Math.min(this.#clock.now() - request.sentAt, this.#idle() - idle)
      this.dispatch({ kind: 'answered', request, answer, waitedMs })
    }
    try {
      await fetch(this.#options.fetching, request, controller, answered)
    } catch (error) {
      if (!this.#requests.has(request)) throw error
      answered(asShownCAError(error, `The CA plugin failed for ${request.of.id}: `))
    }
  }

  async #restore(identity: Identity, from: 'store' | 'bootstrap'): Promise<void> {
    const { fetching, store } = this.#options
    const found = store && (await restore(fetching, store, identity.id, from))
    this.dispatch({ kind: 'restored', identity, from, found })
  }

  async #askRoots({ isChanged, jump }: Extract<Action, { kind: 'askRoots' }>): Promise<void> {
    const { rootList } = this.#options.fetching
    const asked = isChanged ? rootList.refreshAgain() : rootList.refresh()
    if (jump === undefined) return await asked
    await Promise.race([asked, sleep(this.#clock, ROOTS_WITHIN_MS, this.#closed.signal).catch(() => {})])
    if (!this.#closed.signal.aborted) this.dispatch({ kind: 'rootsAsked', jump })
  }

  #tellAccepted(identity: Identity, accepted: () => void): void {
    try {
      accepted()
    } catch (error) {
      const { code, message } = asShownCAError(error, 'The CA plugin failed when its answer was accepted: ')
      this.#options.report(identity.id, { kind: 'ca-error', code, message })
    }
  }

  /** The clock may have been set past notAfter and back: a watcher that came meanwhile has no secret, and nothing else would notify it. */
  #lookAgain(id: SpiffeId): void {
    if (this.#looks.has(id)) return
    const look = after(this.#clock, LOOK_AGAIN_MS, () => {
      this.#looks.delete(id)
      this.dispatch({ kind: 'readerRefused', id })
    })
    this.#looks.set(id, look)
  }

  #stopLooking(id: SpiffeId): void {
    this.#looks.get(id)?.[Symbol.dispose]()
    this.#looks.delete(id)
  }

  #track(task: Promise<void>): void {
    this.#inFlight.add(task)
    void task.finally(() => this.#inFlight.delete(task))
  }

  #idle(): number {
    return this.#clock.idle?.() ?? this.#clock.now()
  }

  /** A timer that fires too early finds nothing due, and is set again. */
  #armTimer(): void {
    const at = nextWake(this.state, this.#decidedAt)
    if (this.state.isClosed || at === Number.POSITIVE_INFINITY || (this.#timer && this.#timer.at <= at)) return
    const before = this.#timer
    const end = this.#clock.at(at, () => {
      this.#timer = undefined
      this.dispatch({ kind: 'woke' })
    })
    this.#timer = { at, end }
    // The old timer goes last: a clock without a deadline looks for no jump.
    before?.end[Symbol.dispose]()
  }
}
