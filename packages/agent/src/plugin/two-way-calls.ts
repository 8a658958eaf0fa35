/** Calls both ways between the agent and the process of a plugin, as messages. */
import { fromWire, toWire, type WireError } from './wire-error.ts'

export interface Port {
  postMessage(message: unknown): void
  on(event: 'message', listener: (message: unknown) => void): unknown
}

/** The methods of one side: each method has one argument, and a signal that is aborted when nobody waits any more. */
type Methods = Readonly<Record<string, (argument: never, signal: AbortSignal) => unknown>>
type Argument<M> = M extends (argument: infer A, ...rest: never) => unknown ? A : never
type Answer<M> = M extends (...rest: never) => infer R ? Awaited<R> : never

type Message =
  /** Without `id` nobody waits for an answer. */
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
  /** Also those that nobody waits for. */
  #servingCount = 0
  #nextId = 1
  #end: Error | undefined

  /** More calls of the other side than `maxServing` at once are refused. */
  constructor(port: Port, ours: Methods, maxServing = Number.POSITIVE_INFINITY) {
    this.#port = port
    this.#ours = ours
    this.#maxServing = maxServing
    port.on('message', message => this.#receive(message as Message))
  }

  /** Rejects with what the other side threw, with the signal's reason, or with that of `close`. */
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
      // The other side is of the same version: it answers what its type says.
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

  /** Open and later calls reject with `reason`, and what is being answered is given up. */
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
