/** Keeps the thread of a plugin alive: starts it again when it has ended or hangs, later each time. */
import { CAError, type Clock, type PluginLog, untilAborted } from '@livery/core'
import type { AgentMethods, PluginModule, Start, ThreadMethods } from './messages.ts'
import type { Peer } from './peer.ts'
import { PluginThread } from './plugin-thread.ts'
import { toWire } from './wire-error.ts'

export interface PluginSupervisorOptions {
  readonly module: PluginModule
  /** For messages: `The CA plugin acme (./acme.mjs)`. */
  readonly what: string
  readonly start: Start
  readonly methods: Partial<AgentMethods>
  readonly clock: Clock
  readonly log: PluginLog
  /** Called when the plugin runs again after it did not. */
  readonly onRestart: () => void
}

/** A plugin may load a large library first, on a machine that is busy. */
const START_MS = 30_000
/** So often the thread is asked whether it lives, and so many times in a row it may give no answer. */
const BEAT_MS = 2_000
const MAX_MISSED_BEATS = 5
const CLOSE_MS = 5_000
/** The pause before it is started again, doubling up to the longest; after a while of good life from the first on. */
const MIN_PAUSE_MS = 500
const MAX_PAUSE_MS = 60_000
const GOOD_LIFE_MS = 60_000

type State =
  | { readonly kind: 'new' }
  /** `settled` resolves when the client was made or could not be. */
  | { readonly kind: 'starting'; readonly thread: PluginThread; readonly settled: Promise<void> }
  | { readonly kind: 'running'; readonly thread: PluginThread; readonly since: number; beat: Disposable }
  | { readonly kind: 'pausing'; readonly timer: Disposable; readonly error: CAError }
  | { readonly kind: 'closed'; readonly closing: Promise<void> }

export class PluginSupervisor implements AsyncDisposable {
  readonly #options: PluginSupervisorOptions
  #state: State = { kind: 'new' }
  #failures = 0

  constructor(options: PluginSupervisorOptions) {
    this.#options = options
  }

  /**
   * Resolves with what the plugin's `create` told, or with `undefined` if it could not be made for now. Rejects with a
   * `TypeError` if that is because of its configuration.
   */
  async start(): Promise<string | null | undefined> {
    try {
      return await this.#launch()
    } catch (error) {
      if (!(error instanceof TypeError)) return undefined
      await this[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Rejects with a `CAError` `unavailable` while the plugin does not run, and when it ends. */
  async call<M extends keyof ThreadMethods>(
    method: M,
    argument: Parameters<ThreadMethods[M]>[0],
    signal?: AbortSignal,
  ): Promise<Awaited<ReturnType<ThreadMethods[M]>>> {
    signal?.throwIfAborted()
    const peer = await this.#runningPeer(signal ?? NEVER)
    return (await peer.call(method, argument as never, signal)) as Awaited<ReturnType<ThreadMethods[M]>>
  }

  /** To the plugin as it runs now; nothing if it does not. */
  tell<M extends keyof ThreadMethods>(method: M, argument: Parameters<ThreadMethods[M]>[0]): void {
    if (this.#state.kind === 'running') this.#state.thread.peer.tell(method, argument as never)
  }

  /** Lets the plugin close its client, for a while; open calls reject. */
  [Symbol.asyncDispose](): Promise<void> {
    const before = this.#state
    if (before.kind === 'closed') return before.closing
    const closing = this.#close(before)
    this.#state = { kind: 'closed', closing }
    return closing
  }

  async #runningPeer(signal: AbortSignal): Promise<Peer<ThreadMethods>> {
    while (this.#state.kind === 'starting') await untilAborted(this.#state.settled, signal)
    switch (this.#state.kind) {
      case 'running':
        return this.#state.thread.peer
      case 'pausing':
        throw this.#state.error
      default:
        throw this.#closedError()
    }
  }

  /** Rejects with what `create` threw, or how the thread has ended. */
  async #launch(): Promise<string | null> {
    const { module, methods, log } = this.#options
    const thread = new PluginThread({ module, methods, log })
    const created = this.#create(thread)
    const settled = created.then(
      () => this.#onCreated(thread),
      error => this.#onNotCreated(thread, error),
    )
    this.#state = { kind: 'starting', thread, settled }
    void thread.ended.then(reason => this.#fail(thread, reason))
    await settled
    return await created
  }

  async #create({ peer }: PluginThread): Promise<string | null> {
    const { clock, start } = this.#options
    const deadline = new AbortController()
    using _timer = clock.at(clock.now() + START_MS, () =>
      deadline.abort(new Error(`it was not ready within ${START_MS / 1000} s`)),
    )
    return await peer.call('create', start, deadline.signal)
  }

  #onCreated(thread: PluginThread): void {
    if (this.#state.kind !== 'starting' || this.#state.thread !== thread) return
    const { clock, log, what, onRestart } = this.#options
    this.#state = { kind: 'running', thread, since: clock.now(), beat: { [Symbol.dispose]() {} } }
    this.#beat(thread, 0)
    if (this.#failures === 0) return
    log.info(`${what} runs again.`)
    onRestart()
  }

  /** What the configuration is to blame for ends the first start, and is not tried again. */
  #onNotCreated(thread: PluginThread, error: unknown): void {
    if (error instanceof TypeError && this.#failures === 0) return
    this.#fail(thread, `could not be started: ${toWire(error).message}`)
  }

  /** An endless loop answers nothing, though the thread lives. */
  #beat(thread: PluginThread, missed: number): void {
    if (this.#state.kind !== 'running' || this.#state.thread !== thread) return
    if (missed >= MAX_MISSED_BEATS) {
      this.#fail(thread, `gave no sign of life for ${(MAX_MISSED_BEATS * BEAT_MS) / 1000} s (an endless loop?)`)
      return
    }
    let hasAnswered = false
    thread.peer.call('ping', null).then(
      () => {
        hasAnswered = true
      },
      () => {}, // it has ended, which is noticed elsewhere
    )
    const { clock } = this.#options
    this.#state.beat = clock.at(clock.now() + BEAT_MS, () => this.#beat(thread, hasAnswered ? 0 : missed + 1))
  }

  /** Only the thread of now can fail: the end of one that was stopped is no news. */
  #fail(thread: PluginThread, reason: string): void {
    const before = this.#state
    if ((before.kind !== 'starting' && before.kind !== 'running') || before.thread !== thread) return
    const { clock, what, log, methods } = this.#options
    if (before.kind === 'running') {
      before.beat[Symbol.dispose]()
      if (clock.now() - before.since >= GOOD_LIFE_MS) this.#failures = 0
    }
    const pauseMs = Math.min(MIN_PAUSE_MS * 2 ** this.#failures++, MAX_PAUSE_MS)
    const error = new CAError('unavailable', `${what} ${reason}. It is started again within ${pauseMs / 1000} s.`)
    const timer = clock.at(clock.now() + pauseMs, () => void this.#launch().catch(() => {}))
    this.#state = { kind: 'pausing', timer, error }
    log.error(error.message)
    methods.count?.({ name: 'restarts', help: 'Times that the thread of a plugin was started again.', count: 1 })
    thread.peer.close(error)
    void thread[Symbol.asyncDispose]()
  }

  async #close(before: State): Promise<void> {
    if (before.kind === 'pausing') before.timer[Symbol.dispose]()
    if (before.kind !== 'starting' && before.kind !== 'running') return
    const { thread } = before
    if (before.kind === 'running') {
      before.beat[Symbol.dispose]()
      await this.#letClose(thread)
    }
    thread.peer.close(this.#closedError())
    await thread[Symbol.asyncDispose]()
  }

  async #letClose({ peer }: PluginThread): Promise<void> {
    const { clock, log, what } = this.#options
    const deadline = new AbortController()
    using _timer = clock.at(clock.now() + CLOSE_MS, () =>
      deadline.abort(new Error(`it did not close within ${CLOSE_MS / 1000} s`)),
    )
    try {
      await peer.call('close', null, deadline.signal)
    } catch (error) {
      log.warn(`${what} was stopped without being closed: ${toWire(error).message}.`)
    }
  }

  #closedError(): CAError {
    return new CAError('unavailable', `${this.#options.what} is closed.`, { retryable: false })
  }
}

const NEVER = new AbortController().signal
