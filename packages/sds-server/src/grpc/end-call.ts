/** Ends calls so that nothing of them is left, whether the peer ends its side or not. */
import type { ServerInterceptingCallInterface } from '@grpc/grpc-js'
import type { StreamRefusal } from '../protocol/stream-refusal.ts'
import { toStatusError } from './grpc-status.ts'
import { http2StreamOf } from './send-frame.ts'

/** For a call that was not started. */
export function refuseCall(call: ServerInterceptingCallInterface, refusal: StreamRefusal): void {
  call.sendStatus(toStatusError(refusal))
  onClosed(call, () => {})
}

/**
 * To be called when a call has its status; calls `onGone` when nothing is left of it. grpc-js leaves the HTTP/2 stream half
 * open for as long as the peer likes, and has no public way to it. It is reset with no error, as gRPC has a server do,
 * but not behind trailers, which the reset would overtake: https://httpwg.org/specs/rfc9113.html#rfc.section.8.1
 */
export function onClosed(call: object, onGone: () => void): void {
  const stream = http2StreamOf(call)
  if (!stream || stream.closed || stream.destroyed) {
    onGone()
    return
  }
  stream.once('close', onGone)
  if (!stream.readableEnded && stream.sentTrailers === undefined) stream.close()
}
