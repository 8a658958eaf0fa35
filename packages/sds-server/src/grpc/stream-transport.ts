/** The gRPC call that carries a stream: on HTTP/2 itself (`Http2Call`), or inside grpc-js (`GrpcCall`). */
import type { ServerHttp2Stream } from 'node:http2'
import type { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'

export interface CallStatus {
  readonly code: number
  readonly details: string
}

/** The value of a header; several are joined by ", ". */
export type HeaderReader = (name: string) => string | undefined

/** Takes what arrives. */
export interface DataSink {
  /** Called with each DATA frame. */
  write(data: Buffer): void
  /** Called when the peer has ended its side, behind all DATA frames. */
  endOfStream(): void
}

/** Hears of a call. */
export interface CallListener {
  /** Called once, inside `start`. */
  onHeaders(header: HeaderReader): void
  /** Called when the deadline of the peer has passed, or cannot be read: with a `StreamRefusal`, to be answered by a status. */
  onRefusal(error: unknown): void
  /** Called once for every end of a call, a regular one too: it has its status, or its stream is closed. */
  onEnd(): void
}

export interface StreamTransport {
  /** Absent where grpc-js keeps it elsewhere. */
  readonly stream: ServerHttp2Stream | undefined
  /** Identifies the connection. */
  getPeer(): string
  start(requests: DataSink, listener: CallListener): void
  /** As the function `sendFrame` has it. */
  sendFrame(frame: ResponseFrame, unsent: UnsentMemory, onWritten: () => void): void
  /** Ends the call, behind the frames that were sent. */
  sendStatus(status: CallStatus): void
}
