/** How many gRPC calls are open at once: each counts from its headers to its end, whether its message ever comes or not. */
import { ServerInterceptingCall, type ServerInterceptingCallInterface } from '@grpc/grpc-js'
import { whenGone } from './end-call.ts'

export class CallLimit {
  readonly #most: number
  #open = 0

  constructor(most: number) {
    this.#most = most
  }

  get size(): number {
    return this.#open
  }

  /** `false` if there is no room. Who is let in has to leave, once. */
  enter(): boolean {
    if (this.#open >= this.#most) return false
    this.#open++
    return true
  }

  leave(): void {
    this.#open--
  }
}

/** A call that goes on to its handler, and counts until it ends; `refuse` ends one for which there is no room. */
export function countedCall(
  call: ServerInterceptingCallInterface,
  limit: CallLimit,
  refuse: (call: ServerInterceptingCallInterface) => void,
): ServerInterceptingCall {
  return new ServerInterceptingCall(call, {
    start(next) {
      if (!limit.enter()) {
        refuse(call)
        return
      }
      let isHeardOf = false
      next({
        onReceiveMetadata(metadata, goOn) {
          isHeardOf = true
          goOn(metadata)
        },
        onCancel: () => whenGone(call, () => limit.leave()),
      })
      // grpc-js tells nothing, not even the end, of a call that it finds destroyed when it starts.
      if (!isHeardOf) limit.leave()
    },
  })
}
