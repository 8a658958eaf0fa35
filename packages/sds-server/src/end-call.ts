/** Ends calls so that nothing of them is left, whether the peer ends its side or not. */
import type { ServerHttp2Stream } from 'node:http2'
import { Duplex } from 'node:stream'
import type { ServerInterceptingCallInterface } from '@grpc/grpc-js'
import { toStatusError } from './grpc-status.ts'
import type { StreamRefusal } from './stream-refusal.ts'

/** For a call that was not started. */
export function refuseCall(call: ServerInterceptingCallInterface, refusal: StreamRefusal): void {
  call.sendStatus(toStatusError(refusal))
  whenGone(call, () => {})
}

/**
 * To be called when a call has its status; calls `onGone` when nothing is left of it. grpc-js leaves the HTTP/2 stream half
 * open for as long as the peer likes, and has no public way to it. It is reset with no error, as gRPC has a server do,
 * but not behind trailers, which the reset would overtake: https://httpwg.org/specs/rfc9113.html#rfc.section.8.1
 */
export function whenGone(call: object, onGone: () => void): void {
  const stream = 'stream' in call ? call.stream : undefined
  if (!isHttp2Stream(stream) || stream.closed || stream.destroyed) {
    onGone()
    return
  }
  stream.once('close', onGone)
  if (!stream.readableEnded && stream.sentTrailers === undefined) stream.close()
}

function isHttp2Stream(stream: unknown): stream is ServerHttp2Stream {
  return stream instanceof Duplex && 'rstCode' in stream
}
