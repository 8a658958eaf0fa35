/** Calls in both directions between the agent and a plugin's process, as messages. */
import { fromWire, toWire, type WireError } from './wire-error.ts'

export interface Port {
  postMessage(message: unknown): void
  on(event: 'message', listener: (message: unknown) => void): unknown
}

/** The methods of one side: each has one argument, and a signal that is aborted when the caller no longer waits. */
type Methods = Readonly<Record<string, (argument: never, signal: AbortSignal) => unknown>>
type Argument<M> = M extends (argument: infer A, ...rest: never) => unknown ? A : never
type Answer<M> = M extends (...rest: never) => infer R ? Awaited<R> : never

type Message =
  /** A call without `id` gets no answer. */
  | { readonly kind: 'call'; readonly id?: number; readonly method: string; readonly argument: unknown }
  | { readonly kind: 'abort'; readonly id: number; readonly reason: WireError }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'error'; readonly id: number; readonly error: WireError }

interface OpenCall {
  readonly resolve: (value: unknown) => void
  readonly reject: (reason: unknown) => void
}

/** One side of the conversation. */
export class Peer<Theirs extends Methods> {
  readonly #port: Port
  readonly #ours: Methods
  readonly #maxServing: number
  readonly #open = new Map<number, OpenCall>()
  readonly #serving = new Map<number, AbortController>()
  /** Includes calls without an answer. */
  #servingCount = 0
  #nextId = 1
  #end: Error | undefined

  /** Refuses calls of the other side beyond `maxServing` at once. */
  constructor(port: Port, ours: Methods, maxServing = Number.POSITIVE_INFINITY) {
    this.#port = port
    this.#ours = ours
    this.#maxServing = maxServing
    port.on('message', message => this.#receive(message as Message))
  }

  /** Rejects with the other side's error, the signal's reason, or the reason given to `close`. */
  async call<M extends string & keyof Theirs>(
    method: M,
    argument: Argument<Theirs[M]>,
    signal?: AbortSignal,
  ): Promise<Answer<Theirs[M]>> {
    signal?.throwIfAborted()
    if (this.#end) throw this.#end
    const id = this.#nextId++
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const onAbort = (): void => {
      reject(signal?.reason)
      this.#post({ kind: 'abort', id, reason: toWire(signal?.reason) })
    }
    this.#open.set(id, { resolve, reject })
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      this.#post({ kind: 'call', id, method, argument })
      // The other side has the same version: its answer matches the type.
      return (await promise) as Answer<Theirs[M]>
    } finally {
      signal?.removeEventListener('abort', onAbort)
      this.#open.delete(id)
    }
  }

  /** A call whose answer does not matter. */
  notify<M extends string & keyof Theirs>(method: M, argument: Argument<Theirs[M]>): void {
    if (!this.#end) this.#post({ kind: 'call', method, argument })
  }

  /** Open and later calls reject with `reason`, and calls being answered are aborted. */
  close(reason: Error): void {
    this.#end ??= reason
    for (const { reject } of this.#open.values()) reject(reason)
    for (const controller of this.#serving.values()) controller.abort(reason)
  }

  #post(message: Message): void {
    this.#port.postMessage(message)
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case 'call':
        void this.#serve(message)
        break
      case 'abort':
        this.#serving.get(message.id)?.abort(fromWire(message.reason))
        break
      case 'answer':
        this.#open.get(message.id)?.resolve(message.value)
        break
      case 'error':
        this.#open.get(message.id)?.reject(fromWire(message.error))
        break
    }
  }

  async #serve({ id, method, argument }: Extract<Message, { kind: 'call' }>): Promise<void> {
    const controller = new AbortController()
    if (id !== undefined) this.#serving.set(id, controller)
    this.#servingCount++
    try {
      if (this.#servingCount > this.#maxServing) throw new Error(`More than ${this.#maxServing} calls wait already`)
      const run = Object.hasOwn(this.#ours, method) ? this.#ours[method] : undefined
      if (!run) throw new TypeError(`There is no method ${method}`)
      const value: unknown = await run(argument as never, controller.signal)
      if (id !== undefined) this.#post({ kind: 'answer', id, value })
    } catch (error) {
      if (id !== undefined) this.#post({ kind: 'error', id, error: toWire(error) })
    } finally {
      this.#servingCount--
      if (id !== undefined && this.#serving.get(id) === controller) this.#serving.delete(id)
    }
  }
}
