/**
 * Writes frames to the HTTP/2 stream of a call. grpc-js' own `sendMessage` would copy the message, keys included, into a
 * buffer of Node's pool that nobody wipes; and it has no public way to the stream.
 */
import type { ServerHttp2Stream } from 'node:http2'
import { Metadata, type ServerInterceptingCallInterface } from '@grpc/grpc-js'
import type { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { onSessionReceived } from './delivery.ts'
import { http2StreamOf } from './grpc-js-internals.ts'

/** The part of a call that is needed to write to it. */
export type FrameSink = Pick<ServerInterceptingCallInterface, 'sendMetadata' | 'sendMessage'>

const NO_METADATA = new Metadata()

/**
 * Writes an acquired frame, and releases it when HTTP/2 has written it to the socket, or never will. `onWritten` is
 * called only in the first case, when the peer's window allowed it; in the second `unsent`, that of the connection, keeps
 * its memory. Without the HTTP/2 stream the frame goes through grpc-js, which leaves a copy to the garbage collector.
 */
export function sendFrame(call: FrameSink, frame: ResponseFrame, unsent: UnsentMemory, onWritten: () => void): void {
  const stream = http2StreamOf(call)
  if (!stream) {
    call.sendMessage(frame, () => {
      frame.release(false)
      onWritten()
    })
    return
  }
  if (!stream.headersSent && !stream.destroyed && !stream.closed) call.sendMetadata(NO_METADATA)
  writeFrame(stream, frame, unsent, onWritten)
}

/** As `sendFrame`, to a stream that has its headers. */
export function writeFrame(
  stream: ServerHttp2Stream,
  frame: ResponseFrame,
  unsent: UnsentMemory,
  onWritten: () => void,
): void {
  if (stream.destroyed || stream.closed || stream.writableEnded) {
    frame.release(false)
    return
  }
  const { session } = stream
  stream.write(frame.bytes, error => {
    // Node 26.10 reports no error for the write that a destroyed stream was in the middle of.
    const isWritten = !error && !stream.destroyed
    frame.release(isWritten)
    if (isWritten) {
      onWritten()
      return
    }
    const free = unsent.keep(frame.bytes)
    if (session) onSessionReceived(session, free)
  })
}
