/** Keeps one stream of the Workload API open: its last message holds as long as it is open. */
import type { ClientReadableStream, ServiceError } from '@grpc/grpc-js'
import { after, type CAError, type Clock, untilAborted } from '@livery/core/plugin'
import { FIRST_DELAY_MS, reopenDelay } from '../../transport/reopen-delay.ts'

interface WorkloadStreamOptions<T> {
  readonly clock: Clock
  /** A number in [0, 1). */
  readonly random: () => number
  /** How long the first message may take, milliseconds. */
  readonly timeoutMs: number
  readonly open: () => ClientReadableStream<Buffer>
  /** Throws an error that `errorOf` understands. */
  readonly read: (bytes: Buffer) => T
  /** `undefined`: the server ended the stream. */
  readonly errorOf: (cause: ServiceError | Error | undefined) => StreamFailure
  readonly onMessage: (value: T) => void
  /** Called each time that the stream breaks or cannot be opened. */
  readonly onBroken: (error: CAError, retryMs: number) => void
}

export interface StreamFailure {
  readonly error: CAError
  /** Asking again will not help: the stream waits for its longest time, even if a caller asks. */
  readonly isFinal: boolean
}

type State<T> =
  | { readonly kind: 'idle' }
  | { readonly kind: 'opening'; readonly call: ClientReadableStream<Buffer>; readonly timer: Disposable }
  | { readonly kind: 'open'; readonly call: ClientReadableStream<Buffer>; readonly value: T }
  | {
      readonly kind: 'broken'
      readonly failure: StreamFailure
      readonly since: number
      readonly retryAt: number
      readonly timer: Disposable
    }
  | { readonly kind: 'closed'; readonly error: CAError }

const FINAL_RETRY_MS = 300_000

export class WorkloadStream<T> {
  readonly #options: WorkloadStreamOptions<T>
  #state: State<T> = { kind: 'idle' }
  /** The result of the current attempt, or of the next one. */
  #outcome = Promise.withResolvers<T>()
  /** Failures in a row. */
  #failures = 0

  constructor(options: WorkloadStreamOptions<T>) {
    this.#options = options
  }

  /**
   * The latest message, if the stream is open; else the first message of the next attempt, which then starts soon. Opens
   * the stream the first time. Rejects with a `CAError`, or the signal's reason; while nothing answers there, only once
   * no further attempt fits into `connectWithinMs`.
   */
  async current(signal: AbortSignal, connectWithinMs = 0): Promise<T> {
    const until = this.#options.clock.now() + connectWithinMs
    for (;;) {
      try {
        const value = await this.#next(signal)
        signal.throwIfAborted()
        return value
      } catch (error) {
        if (signal.aborted || !this.#fitsAnother(error, until)) throw error
      }
    }
  }

  #fitsAnother(error: unknown, until: number): boolean {
    const state = this.#state
    if (state.kind !== 'broken' || state.failure.isFinal || state.failure.error !== error) return false
    return state.failure.error.code === 'unavailable' && state.since + FIRST_DELAY_MS < until
  }

  async #next(signal: AbortSignal): Promise<T> {
    signal.throwIfAborted()
    switch (this.#state.kind) {
      case 'open':
        return this.#state.value
      case 'closed':
        throw this.#state.error
      case 'broken':
        if (this.#state.failure.isFinal) throw this.#state.failure.error
        this.#retryBy(this.#state, this.#state.since + FIRST_DELAY_MS)
        break
      case 'idle':
        this.start()
    }
    return await untilAborted(this.#outcome.promise, signal)
  }

  /** Opens the stream, unless it is or was open. */
  start(): void {
    if (this.#state.kind === 'idle') this.#open()
  }

  /** Waiting callers reject with `error`. */
  close(error: CAError): void {
    this.#end()
    this.#state = { kind: 'closed', error }
    this.#reject(error)
  }

  #open(): void {
    const { clock, timeoutMs, open } = this.#options
    const call = open()
    const timer = after(clock, timeoutMs, () => {
      const text = `it gave no answer within ${timeoutMs} ms`
      this.#break(call, Object.assign(new Error(text), { name: 'TimeoutError' }))
    })
    this.#state = { kind: 'opening', call, timer }
    call.on('data', (bytes: Buffer) => this.#receive(call, bytes))
    call.on('error', (error: ServiceError) => this.#break(call, error))
    call.on('end', () => this.#break(call, undefined))
  }

  #receive(call: ClientReadableStream<Buffer>, bytes: Buffer): void {
    if (!this.#isCurrent(call)) return
    let value: T
    try {
      value = this.#options.read(bytes)
    } catch (error) {
      this.#break(call, error instanceof Error ? error : new Error(String(error)))
      return
    }
    if (this.#state.kind === 'opening') this.#state.timer[Symbol.dispose]()
    this.#state = { kind: 'open', call, value }
    this.#failures = 0
    this.#outcome.resolve(value)
    this.#options.onMessage(value)
  }

  #break(call: ClientReadableStream<Buffer>, cause: ServiceError | Error | undefined): void {
    // The end of a cancelled call has no meaning.
    if (!this.#isCurrent(call)) return
    this.#end()
    const { clock, random, errorOf, onBroken } = this.#options
    const failure = errorOf(cause)
    const retryMs = failure.isFinal ? FINAL_RETRY_MS : reopenDelay(this.#failures++, random())
    const since = clock.now()
    const retryAt = since + retryMs
    this.#state = { kind: 'broken', failure, since, retryAt, timer: clock.at(retryAt, () => this.#open()) }
    this.#reject(failure.error)
    this.#outcome = Promise.withResolvers()
    onBroken(failure.error, retryMs)
  }

  #retryBy(state: Extract<State<T>, { kind: 'broken' }>, retryAt: number): void {
    if (state.retryAt <= retryAt) return
    state.timer[Symbol.dispose]()
    this.#state = { ...state, retryAt, timer: this.#options.clock.at(retryAt, () => this.#open()) }
  }

  #isCurrent(call: ClientReadableStream<Buffer>): boolean {
    return (this.#state.kind === 'opening' || this.#state.kind === 'open') && this.#state.call === call
  }

  #end(): void {
    const state = this.#state
    if ('timer' in state) state.timer[Symbol.dispose]()
    if ('call' in state) state.call.cancel()
  }

  /** Often no caller waits. */
  #reject(error: CAError): void {
    this.#outcome.promise.catch(() => {})
    this.#outcome.reject(error)
  }
}
