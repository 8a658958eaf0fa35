/** Calls that grpc-js' own handlers answer: each counts from its headers to its end, whether its message ever comes or not. */
import { Metadata, ServerInterceptingCall, type ServerInterceptingCallInterface } from '@grpc/grpc-js'
import { onClosed } from './end-call.ts'

export interface CountedCallOptions {
  /** `false` if there is no room, and then the call has been refused. One that was let in has to leave, once. */
  enter(): boolean
  leave(): void
  /** The call has ended, and may still be on its connection. */
  onEnd(): void
}

/** A call that goes on to its handler, and counts until nothing is left of it. */
export function countedCall(
  call: ServerInterceptingCallInterface,
  options: CountedCallOptions,
): ServerInterceptingCall {
  return new ServerInterceptingCall(call, {
    start(next) {
      if (!options.enter()) return
      const end = () => {
        options.onEnd()
        onClosed(call, () => options.leave())
      }
      let isHeardOf = false
      next({
        onReceiveMetadata(_, goOn) {
          isHeardOf = true
          // No handler reads it, and the call would keep it.
          dropMetadata(call)
          goOn(new Metadata())
        },
        onCancel: end,
      })
      // grpc-js tells nothing, not even the end, of a call that it finds destroyed when it starts.
      if (!isHeardOf) end()
    },
  })
}

/** A call keeps its headers as long as it is open, though nobody reads them; grpc-js has no public way to drop them. */
export function dropMetadata(call: object): void {
  Reflect.set(call, 'metadata', undefined)
}
