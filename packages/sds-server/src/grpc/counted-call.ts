/** Counts the calls that handlers of grpc-js answer, each from its headers to its end, even if its message never arrives. */
import { Metadata, ServerInterceptingCall, type ServerInterceptingCallInterface } from '@grpc/grpc-js'
import { onClosed } from './end-call.ts'
import { dropMetadata } from './grpc-js-internals.ts'

export interface CountedCallOptions {
  /** Returns `false` if there is no room; the call was refused then. An admitted call leaves exactly once. */
  enter(): boolean
  leave(): void
  /** The call has ended; its HTTP/2 stream can still be open. */
  onEnd(): void
}

/** A call that continues to its handler, and counts until its HTTP/2 stream is closed. */
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
          // No handler reads it, and the call would hold it.
          dropMetadata(call)
          goOn(new Metadata())
        },
        onCancel: end,
      })
      // grpc-js reports nothing, not even the end, of a call whose stream is destroyed when it starts.
      if (!isHeardOf) end()
    },
  })
}
