/** Ends calls and their HTTP/2 streams, even if the peer does not end its side. */
import type { StreamRefusal } from '../protocol/stream-refusal.ts'
import { http2StreamOf } from './grpc-js-internals.ts'
import { toStatusError } from './grpc-status.ts'
import type { StreamTransport } from './stream-transport.ts'

/** Ends a call that was not started. */
export function refuseCall(call: Pick<StreamTransport, 'sendStatus'>, refusal: StreamRefusal): void {
  call.sendStatus(toStatusError(refusal))
  onClosed(call, () => {})
}

/**
 * Call it when a call has its status; it calls `onGone` when the HTTP/2 stream is closed. grpc-js leaves that stream half
 * open until the peer ends its side, and has no public way to it. It is reset without an error, as gRPC asks of servers,
 * but not behind trailers, which the reset would overtake: https://httpwg.org/specs/rfc9113.html#rfc.section.8.1
 */
export function onClosed(call: object, onGone: () => void): void {
  const stream = http2StreamOf(call)
  if (!stream || stream.closed || stream.destroyed) {
    onGone()
    return
  }
  stream.once('close', onGone)
  // From Node 26.8 on a reset overtakes headers of the same turn of the event loop.
  if (!stream.readableEnded && stream.sentTrailers === undefined) setImmediate(() => stream.close())
}
