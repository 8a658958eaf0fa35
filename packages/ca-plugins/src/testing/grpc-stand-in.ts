/** The part that gRPC servers of tests share: they record the calls that arrive, and cut their connections on demand. */
import type { ServerUnaryCall } from '@grpc/grpc-js'
import type { GrpcListener } from './grpc-listener.ts'

/** Closing it ends the gRPC server as well. */
export class GrpcStandIn<Call> implements AsyncDisposable {
  /** The latest ones, oldest first. */
  readonly calls: Call[] = []
  readonly #listener: GrpcListener
  readonly #maxCalls: number
  readonly #waiting: ((call: Call) => void)[] = []

  /** Keeps `maxCalls` calls: keeping all would look like a leak of the plugin. */
  constructor(listener: GrpcListener, maxCalls: number) {
    this.#listener = listener
    this.#maxCalls = maxCalls
  }

  /** How many connections there have been. */
  get connections(): number {
    return this.#listener.connections
  }

  /** Resolves with the next call that arrives. */
  nextCall(): Promise<Call> {
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  /** Resolves once no client is connected. */
  disconnected(): Promise<void> {
    return this.#listener.disconnected()
  }

  /** Cuts every connection. */
  reset(): void {
    this.#listener.reset()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#listener[Symbol.asyncDispose]()
  }

  protected record(call: Call): void {
    this.calls.push(call)
    if (this.calls.length > this.#maxCalls) this.calls.shift()
    for (const wake of this.#waiting.splice(0)) wake(call)
  }
}

/** The metadata of a call by lower-case name. */
export function headersOf({ metadata }: Pick<ServerUnaryCall<unknown, unknown>, 'metadata'>): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata.getMap()).map(([name, value]) => [name, value.toString()]))
}
