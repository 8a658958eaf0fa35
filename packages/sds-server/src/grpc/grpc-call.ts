/** A call of grpc-js as the transport of a stream, where grpc-js has to see every HTTP/2 stream. */
import type { ServerHttp2Stream } from 'node:http2'
import type { ServerInterceptingCallInterface } from '@grpc/grpc-js'
import type { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { dropMetadata, http2StreamOf, replaceDecoder } from './grpc-js-internals.ts'
import { sendFrame } from './send-frame.ts'
import type { CallListener, CallStatus, DataSink, StreamTransport } from './stream-transport.ts'

const NOTHING_TO_DECODE: Buffer[] = []

export class GrpcCall implements StreamTransport {
  readonly stream: ServerHttp2Stream | undefined
  readonly #call: ServerInterceptingCallInterface

  constructor(call: ServerInterceptingCallInterface) {
    this.#call = call
    this.stream = http2StreamOf(call)
  }

  getPeer(): string {
    return this.#call.getPeer()
  }

  start(requests: DataSink, listener: CallListener): void {
    const call = this.#call
    replaceDecoder(call, {
      write(data) {
        requests.write(data)
        return NOTHING_TO_DECODE
      },
    })
    let isStarted = false
    call.start({
      onReceiveMetadata(headers) {
        isStarted = true
        dropMetadata(call)
        listener.onHeaders(name => headers.get(name).join(', ') || undefined)
        // Once is enough: the messages are read elsewhere.
        call.startRead()
      },
      onReceiveMessage() {},
      onReceiveHalfClose: () => requests.endOfStream(),
      onCancel: () => listener.onEnd(),
    })
    // grpc-js reports nothing, not even the end, of a call whose stream is destroyed when it starts.
    if (!isStarted) listener.onEnd()
  }

  sendFrame(frame: ResponseFrame, unsent: UnsentMemory, onWritten: () => void): void {
    sendFrame(this.#call, frame, unsent, onWritten)
  }

  sendStatus(status: CallStatus): void {
    this.#call.sendStatus(status)
  }
}
