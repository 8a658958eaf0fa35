/** A gRPC call on its HTTP/2 stream: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import type { Clock } from '@livery/core/plugin'
import type { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import type { StreamRefusal } from '../protocol/stream-refusal.ts'
import { startDeadline } from './call-deadline.ts'
import { onReceived } from './delivery.ts'
import { type CallStatus, closeAnswered, respond, sendStatus, statusOf } from './grpc-status.ts'
import { resumeReading } from './incoming-requests.ts'

/** The listener of one call. */
export interface CallListener {
  /** Called when the deadline of the peer has passed, or cannot be read: with a `StreamRefusal`, to be answered by a status. */
  refuse(error: unknown): void
  /** Called once when the call has ended, even regularly: it has its status, or its stream is closed. */
  onEnd(): void
  /** Called once after that, when the HTTP/2 stream is closed. */
  onGone(): void
}

/** A call that is open for hours keeps no headers. */
export class Http2Call {
  readonly #stream: ServerHttp2Stream
  readonly #clock: Clock
  #headers: IncomingHttpHeaders | undefined
  #listener: CallListener | undefined
  #deadline: Disposable | undefined
  #hasStatus = false
  #hasEnded = false

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, clock: Clock) {
    this.#stream = stream
    this.#headers = headers
    this.#clock = clock
  }

  start(listener: CallListener): void {
    this.#listener = listener
    this.#stream.on('close', () => this.#end())
    const timeout = this.header('grpc-timeout')
    this.#headers = undefined
    // A deadline would keep a call in memory that was refused for its headers.
    if (timeout !== undefined && !this.#hasEnded) this.#deadline = startDeadline(timeout, this.#clock, listener)
  }

  /** The value of a header, before `start`; several are joined by ", ". */
  header(name: string): string | undefined {
    return this.#headers?.[name]?.toString()
  }

  /** The bytes of the peer. */
  get incoming(): Readable {
    return this.#stream
  }

  /**
   * Writes an acquired frame, and releases it when HTTP/2 has written it to the socket, or never will. `onWritten` is
   * called only in the first case; in the second, the connection's `unsent` keeps its memory.
   */
  sendFrame(frame: ResponseFrame, unsent: UnsentMemory, onWritten: () => void): void {
    const stream = this.#stream
    if (stream.destroyed || stream.closed || stream.writableEnded) {
      frame.release(false)
      return
    }
    if (!stream.headersSent) respond(stream)
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
      if (session) onReceived(session, free)
    })
  }

  /** Calls `task` when the peer has received everything sent before: see the function `onReceived`. */
  onReceived(task: () => void): void {
    const { session } = this.#stream
    if (session) onReceived(session, task)
  }

  /** Ends the call, behind the frames that were sent. */
  sendStatus(status: CallStatus): void {
    const stream = this.#stream
    if (this.#hasStatus || stream.destroyed || stream.closed) return
    this.#hasStatus = true
    sendStatus(stream, status, () => this.#end())
  }

  /** Ends a call that was not started. */
  refuse(refusal: StreamRefusal): void {
    this.sendStatus(statusOf(refusal))
  }

  #end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#deadline?.[Symbol.dispose]()
    // Further frames of the peer must not fill the window of its connection.
    resumeReading(this.#stream)
    // The caller of `sendStatus` comes first.
    process.nextTick(() => this.#leave())
  }

  #leave(): void {
    const [stream, listener] = [this.#stream, this.#listener]
    listener?.onEnd()
    if (stream.closed || stream.destroyed) {
      listener?.onGone()
      return
    }
    stream.once('close', () => listener?.onGone())
    closeAnswered(stream)
  }
}

/** Its public part. */
export type Call = Pick<Http2Call, keyof Http2Call>
