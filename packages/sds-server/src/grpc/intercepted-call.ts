/** A call that is answered before it reaches a handler of grpc-js, which would read ahead and copy keys. */
import { ServerInterceptingCall, type ServerInterceptingCallInterface } from '@grpc/grpc-js'

export type CallOpener = (call: ServerInterceptingCallInterface) => void

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
    this.#open(this.#call)
  }
}

/** grpc-js needs a handler for each method. */
export function neverCalled(): void {}
