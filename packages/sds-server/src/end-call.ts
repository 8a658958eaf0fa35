/** Ends calls so that nothing of them is left, whether the peer ends its side or not. */
import type { ServerHttp2Stream } from 'node:http2'
import { Duplex } from 'node:stream'
import type { ServerInterceptingCallInterface } from '@grpc/grpc-js'
import { toStatusError } from './grpc-status.ts'
import type { StreamRefusal } from './stream-refusal.ts'

/** For a call that was not started. */
export function refuseCall(call: ServerInterceptingCallInterface, refusal: StreamRefusal): void {
  call.sendStatus(toStatusError(refusal))
  closeHttp2Stream(call)
}

/**
 * To be called when a call has its status. grpc-js then leaves the HTTP/2 stream half open for as long as the peer likes,
 * and has no public way to it. gRPC has a server reset it with no error: https://httpwg.org/specs/rfc9113.html#rfc.section.8.1
 */
export function closeHttp2Stream(call: object): void {
  if (!('stream' in call) || !isHttp2Stream(call.stream)) return
  if (!call.stream.readableEnded) call.stream.close()
}

function isHttp2Stream(stream: unknown): stream is Pick<ServerHttp2Stream, 'readableEnded' | 'close'> {
  return stream instanceof Duplex && 'rstCode' in stream
}
