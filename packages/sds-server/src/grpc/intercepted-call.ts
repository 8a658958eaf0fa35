/** A call of grpc-js that is answered before it reaches a handler, which would read ahead and copy keys. */
import { ServerInterceptingCall, type ServerInterceptingCallInterface } from '@grpc/grpc-js'
import { GrpcCall } from './grpc-call.ts'
import type { StreamTransport } from './stream-transport.ts'

/** Serves a call, or refuses it. */
export type CallOpener = (call: StreamTransport) => void

/** Its opener handles it, in place of the handler registered for its method. */
export class InterceptedCall extends ServerInterceptingCall {
  readonly #call: ServerInterceptingCallInterface
  readonly #open: CallOpener

  constructor(call: ServerInterceptingCallInterface, open: CallOpener) {
    super(call)
    this.#call = call
    this.#open = open
  }

  override start(): void {
    this.#open(new GrpcCall(this.#call))
  }
}

/** grpc-js needs a handler for each method. */
export function neverCalled(): void {}
