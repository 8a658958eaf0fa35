/** Keeps a plugin's process alive: restarts it when it has ended or hangs, later each time. */
import { after, backoff, CAError, type Clock, type PluginLog, untilAborted, withDeadline } from '@livery/core/plugin'
import { BoundedLog } from './bounded-log.ts'
import type { AgentMethods, PluginMethods, PluginModule, Start } from './messages.ts'
import { PluginProcess } from './plugin-process.ts'
import type { Peer } from './two-way-calls.ts'
import { toWire } from './wire-error.ts'

interface PluginSupervisorOptions {
  readonly module: PluginModule
  /** Names the plugin in messages: `The CA plugin acme (./acme.mjs)`. */
  readonly what: string
  readonly start: Start
  /** `log` is missing here: the plugin's lines go to `log` below, a bounded number. */
  readonly methods: Partial<Omit<AgentMethods, 'log'>>
  readonly clock: Clock
  readonly log: PluginLog
  /** Called when the plugin runs again after it had stopped. */
  readonly onRestart: () => void
}

/** A plugin may first load a large library, on a busy machine. */
const START_MS = 30_000
/** How often the plugin is asked for a sign of life, and how many answers in a row may be missing. */
const BEAT_MS = 2_000
const MAX_MISSED_BEATS = 5
const CLOSE_MS = 5_000
/** The pause before a restart. It doubles; after a life of `GOOD_LIFE_MS` it is the shortest again. */
const PAUSE = { minMs: 500, maxMs: 60_000 }
const GOOD_LIFE_MS = 60_000

type State =
  | { readonly kind: 'new' }
  /** `settled` resolves when the client was made or could not be. */
  | { readonly kind: 'starting'; readonly run: PluginProcess; readonly settled: Promise<void> }
  | { readonly kind: 'running'; readonly run: PluginProcess; readonly since: number; beat: Disposable }
  | { readonly kind: 'pausing'; readonly timer: Disposable; readonly error: CAError }
  | { readonly kind: 'closed'; readonly closing: Promise<void> }

export class PluginSupervisor implements AsyncDisposable {
  readonly #options: PluginSupervisorOptions
  readonly #lines: BoundedLog
  readonly #methods: Partial<AgentMethods>
  #state: State = { kind: 'new' }
  #failures = 0

  constructor(options: PluginSupervisorOptions) {
    this.#options = options
    const lines = new BoundedLog(options.log, options.clock)
    this.#lines = lines
    this.#methods = { ...options.methods, log: ({ level, message }) => lines.log[level](message) }
  }

  /**
   * Resolves with the report of the plugin's `create`, or with `undefined` if it failed for now. Rejects with a `TypeError` if
   * the configuration is to blame.
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
  async call<M extends keyof PluginMethods>(
    method: M,
    argument: Parameters<PluginMethods[M]>[0],
    signal?: AbortSignal,
  ): Promise<Awaited<ReturnType<PluginMethods[M]>>> {
    signal?.throwIfAborted()
    const peer = await this.#runningPeer(signal ?? NEVER)
    return (await peer.call(method, argument as never, signal)) as Awaited<ReturnType<PluginMethods[M]>>
  }

  /** Gives the plugin some time to close its client; open calls reject. */
  [Symbol.asyncDispose](): Promise<void> {
    const before = this.#state
    if (before.kind === 'closed') return before.closing
    const closing = this.#close(before)
    this.#state = { kind: 'closed', closing }
    return closing
  }

  async #runningPeer(signal: AbortSignal): Promise<Peer<PluginMethods>> {
    while (this.#state.kind === 'starting') await untilAborted(this.#state.settled, signal)
    switch (this.#state.kind) {
      case 'running':
        return this.#state.run.peer
      case 'pausing':
        throw this.#state.error
      default:
        throw this.#closedError()
    }
  }

  /** Rejects with the error of `create`, or with how the process ended. */
  async #launch(): Promise<string | null> {
    const run = new PluginProcess(this.#options.module, this.#methods, this.#lines.printed)
    const created = this.#create(run)
    const settled = created.then(
      () => this.#onCreated(run),
      error => this.#onNotCreated(run, error),
    )
    this.#state = { kind: 'starting', run, settled }
    void run.ended.then(reason => this.#fail(run, reason))
    await settled
    return await created
  }

  async #create({ peer }: PluginProcess): Promise<string | null> {
    const { clock, start } = this.#options
    const error = () => new Error(`it was not ready within ${START_MS / 1000} s`)
    return await withDeadline({ clock, ms: START_MS, error }, signal => peer.call('create', start, signal))
  }

  #onCreated(run: PluginProcess): void {
    if (this.#state.kind !== 'starting' || this.#state.run !== run) return
    const { clock, log, what, onRestart } = this.#options
    this.#state = { kind: 'running', run, since: clock.now(), beat: { [Symbol.dispose]() {} } }
    this.#beat(run, 0)
    if (this.#failures === 0) return
    log.info(`${what} runs again.`)
    onRestart()
  }

  /** A fault of the configuration ends the first start, without a retry. */
  #onNotCreated(run: PluginProcess, error: unknown): void {
    if (error instanceof TypeError && this.#failures === 0) return
    this.#fail(run, `could not be started: ${toWire(error).message}`)
  }

  /** A process in an endless loop lives, but does not answer. */
  #beat(run: PluginProcess, missed: number): void {
    if (this.#state.kind !== 'running' || this.#state.run !== run) return
    if (missed >= MAX_MISSED_BEATS) {
      this.#fail(run, `gave no sign of life for ${(MAX_MISSED_BEATS * BEAT_MS) / 1000} s (an endless loop?)`)
      return
    }
    let hasAnswered = false
    run.peer.call('ping', null).then(
      () => {
        hasAnswered = true
      },
      () => {}, // it has ended, which is noticed elsewhere
    )
    const { clock } = this.#options
    this.#state.beat = after(clock, BEAT_MS, () => this.#beat(run, hasAnswered ? 0 : missed + 1))
  }

  /** Only the current run can fail: the end of a stopped one is no news. */
  #fail(run: PluginProcess, reason: string): void {
    const before = this.#state
    if ((before.kind !== 'starting' && before.kind !== 'running') || before.run !== run) return
    const { clock, what, log, methods } = this.#options
    if (before.kind === 'running') {
      before.beat[Symbol.dispose]()
      if (clock.now() - before.since >= GOOD_LIFE_MS) this.#failures = 0
    }
    const pauseMs = backoff(++this.#failures, PAUSE)
    const error = new CAError('unavailable', `${what} ${reason}. It is started again within ${pauseMs / 1000} s.`)
    const timer = after(clock, pauseMs, () => void this.#launch().catch(() => {}))
    this.#state = { kind: 'pausing', timer, error }
    log.error(error.message)
    methods.count?.({
      name: 'restarts',
      help: 'Times that the process of a plugin was started again.',
      count: 1,
    })
    run.peer.close(error)
    void run[Symbol.asyncDispose]()
  }

  async #close(before: State): Promise<void> {
    using _lines = this.#lines
    if (before.kind === 'pausing') before.timer[Symbol.dispose]()
    if (before.kind !== 'starting' && before.kind !== 'running') return
    const { run } = before
    if (before.kind === 'running') {
      before.beat[Symbol.dispose]()
      await this.#letClose(run)
    }
    run.peer.close(this.#closedError())
    await run[Symbol.asyncDispose]()
  }

  async #letClose({ peer }: PluginProcess): Promise<void> {
    const { clock, log, what } = this.#options
    const error = () => new Error(`it did not close within ${CLOSE_MS / 1000} s`)
    try {
      await withDeadline({ clock, ms: CLOSE_MS, error }, signal => peer.call('close', null, signal))
    } catch (error) {
      log.warn(`${what} was stopped without being closed: ${toWire(error).message}.`)
    }
  }

  #closedError(): CAError {
    return new CAError('unavailable', `${this.#options.what} is closed.`, { retryable: false })
  }
}

const NEVER = new AbortController().signal
