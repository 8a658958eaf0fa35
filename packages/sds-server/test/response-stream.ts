/** One gRPC stream of a test's client: responses are queued until somebody asks for them. */
import { type ChannelOptions, Client, type ClientReadableStream, credentials, type StatusObject } from '@grpc/grpc-js'

/** A client with a separate connection, as each proxy and each workload has. */
export function connectTo(path: string, options: ChannelOptions = {}): Client {
  return new Client(`unix:${path}`, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1, ...options })
}

export class ResponseStream<Response> {
  /** How the stream ended. */
  readonly status: Promise<StatusObject>
  readonly #call: ClientReadableStream<Response>
  readonly #received: Response[] = []
  readonly #waiting: PromiseWithResolvers<Response>[] = []

  constructor(call: ClientReadableStream<Response>) {
    this.#call = call
    this.status = new Promise(resolve => call.on('status', resolve))
    call.on('status', ({ code, details }) => {
      for (const waiter of this.#waiting) waiter.reject(new Error(`the stream ended with ${code}: ${details}`))
    })
    call.on('error', () => {}) // the status says it
    call.on('data', (response: Response) => {
      const waiter = this.#waiting.shift()
      if (waiter) waiter.resolve(response)
      else this.#received.push(response)
    })
  }

  /** How many responses nobody has taken yet. */
  get queued(): number {
    return this.#received.length
  }

  /** The next response; rejects if the stream ends before. */
  next(): Promise<Response> {
    const received = this.#received.shift()
    if (received !== undefined) return Promise.resolve(received)
    const waiter = Promise.withResolvers<Response>()
    this.#waiting.push(waiter)
    return waiter.promise
  }

  /** Stops reading, as a stopped process does: the window fills up. */
  pause(): void {
    this.#call.pause()
  }

  resume(): void {
    this.#call.resume()
  }

  cancel(): void {
    this.#call.cancel()
  }
}
