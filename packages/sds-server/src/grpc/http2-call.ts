/** A gRPC call on its HTTP/2 stream: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { after, type Clock } from '@livery/core/plugin'
import type { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { onReceived } from './delivery.ts'
import { toStatusError } from './grpc-status.ts'

interface CallStatus {
  readonly code: number
  readonly details: string
}

/** The value of a header; several are joined by ", ". */
export type HeaderReader = (name: string) => string | undefined

/** Takes what arrives. */
export interface DataSink {
  /** Called with each DATA frame; frames that come while the call is paused follow when it is resumed. */
  write(data: Buffer): void
  /** Called while the call is paused, with the length of each DATA frame, which waits now. */
  onUnread(bytes: number): void
  /** Called when the peer has ended its side, behind all DATA frames. */
  endOfStream(): void
}

/** The listener of one call. */
export interface CallListener {
  /** Called once, inside `start`. */
  onHeaders(header: HeaderReader): void
  /** Called when the deadline of the peer has passed, or cannot be read: with a `StreamRefusal`, to be answered by a status. */
  refuse(error: unknown): void
  /** Called once when the call has ended, even regularly: it has its status, or its stream is closed. */
  onEnd(): void
}

const HEADERS = {
  ':status': '200',
  'content-type': 'application/grpc+proto',
  'grpc-accept-encoding': 'identity,deflate,gzip',
}
/** Names and values in turn: Node keeps the headers as long as the stream, and copies an object but not a list. */
const RESPONSE: readonly string[] = Object.entries(HEADERS).flat()
/** No date, which gRPC does not use: Node would add one to the list above. */
const WITH_TRAILERS = { waitForTrailers: true, sendDate: false }
const WITHOUT_BODY = { endStream: true, sendDate: false }

const TIMEOUT = /^(\d{1,8})([HMSmun])$/
const UNIT_MS: ReadonlyMap<string | undefined, number> = new Map([
  ['H', 3_600_000],
  ['M', 60_000],
  ['S', 1_000],
  ['m', 1],
  ['u', 1e-3],
  ['n', 1e-6],
])
/** A slice holds the whole buffer that it was cut from, so one that is a small part of it is copied. */
const COPY_BELOW = 0.5

/** A call that is open for hours keeps no headers. */
export class Http2Call {
  readonly #stream: ServerHttp2Stream
  readonly #clock: Clock
  #headers: IncomingHttpHeaders | undefined
  #listener: CallListener | undefined
  #deadline: Disposable | undefined
  #isPaused = false
  #hasStatus = false
  #hasEnded = false

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, clock: Clock) {
    this.#stream = stream
    this.#headers = headers
    this.#clock = clock
  }

  start(requests: DataSink, listener: CallListener): void {
    const headers = this.#headers ?? {}
    this.#headers = undefined
    this.#listener = listener
    this.#stream.on('close', () => this.#end())
    listener.onHeaders(readerOf(headers))
    const timeout = headers['grpc-timeout']
    // A deadline would keep a call in memory that was refused for its headers.
    if (timeout !== undefined && !this.#hasEnded) this.#setDeadline(timeout.toString(), listener)
    this.#read(requests)
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  /** Bytes that came while the call was paused. */
  get unreadBytes(): number {
    return this.#stream.readableLength
  }

  /** Whether the peer has ended its side, and the sink knows. */
  get isHalfClosed(): boolean {
    return this.#stream.readableEnded
  }

  /** Stops reading: frames wait until the window of the stream is full. */
  pause(): void {
    this.#isPaused = true
    this.#stream.pause()
  }

  resume(): void {
    this.#isPaused = false
    this.#stream.resume()
    // Only this reopens the window after a pause in which no frame went through the stream's buffer.
    this.#stream._read(0)
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
    if (!stream.headersSent) stream.respond(RESPONSE, WITH_TRAILERS)
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
  sendStatus({ code, details }: CallStatus): void {
    const stream = this.#stream
    if (this.#hasStatus || stream.destroyed || stream.closed) return
    this.#hasStatus = true
    const trailers = { 'grpc-status': String(code), 'grpc-message': encodeURI(details.toWellFormed()) }
    if (!stream.headersSent) {
      stream.respond({ ...HEADERS, ...trailers }, WITHOUT_BODY)
      this.#end()
      return
    }
    stream.once('wantTrailers', () => {
      stream.sendTrailers(trailers)
      this.#end()
    })
    stream.end()
  }

  /** Ends a call that was not started. */
  refuse(refusal: StreamRefusal): void {
    this.sendStatus(toStatusError(refusal))
    closeAnswered(this.#stream)
  }

  /** Call it when the call has ended; it calls `onGone` when the HTTP/2 stream is closed. */
  onClosed(onGone: () => void): void {
    const stream = this.#stream
    if (stream.closed || stream.destroyed) {
      onGone()
      return
    }
    stream.once('close', onGone)
    closeAnswered(stream)
  }

  /**
   * Replaces the hook that Node calls with each DATA frame. The buffer behind it costs a tenth of a response, and is useful
   * only while frames wait.
   */
  #read(requests: DataSink): void {
    const stream = this.#stream
    const { push } = stream
    stream.push = (data: Buffer | null) => {
      if (data === null) return push.call(stream, data)
      if (this.#isPaused) {
        const goesOn = push.call(stream, ownCopy(data))
        requests.onUnread(data.length)
        return goesOn
      }
      if (stream.readableLength > 0) return push.call(stream, data)
      requests.write(data)
      return true
    }
    stream.on('data', (data: Buffer) => requests.write(data))
    stream.on('end', () => requests.endOfStream())
  }

  #setDeadline(timeout: string, listener: CallListener): void {
    const [, amount, unit] = TIMEOUT.exec(timeout) ?? []
    const unitMs = UNIT_MS.get(unit)
    if (unitMs === undefined) {
      listener.refuse(new StreamRefusal('invalid-argument', 'the header grpc-timeout is not a time, such as 10S'))
      return
    }
    this.#deadline = after(this.#clock, Number(amount) * unitMs, () =>
      listener.refuse(new StreamRefusal('deadline-exceeded', 'the deadline of the caller has passed')),
    )
  }

  #end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#deadline?.[Symbol.dispose]()
    // Further frames of the peer must not fill the window of its connection.
    if (this.#isPaused) this.resume()
    else this.#stream.resume()
    // The caller of `sendStatus` comes first.
    process.nextTick(() => this.#listener?.onEnd())
  }
}

/** Its public part. */
export type Call = Pick<Http2Call, keyof Http2Call>

/** Answers a stream that is no gRPC call: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#requests */
export function refuseMediaType(stream: ServerHttp2Stream): void {
  stream.respond({ ':status': 415 }, WITHOUT_BODY)
  stream.resume()
  closeAnswered(stream)
}

/**
 * Closes a stream whose peer does not end its side. It is reset without an error, as gRPC asks of servers, but not behind
 * trailers, which the reset would overtake: https://httpwg.org/specs/rfc9113.html#rfc.section.8.1
 */
function closeAnswered(stream: ServerHttp2Stream): void {
  // A reset overtakes headers of the same turn of the event loop since Node 26.8.
  if (!stream.readableEnded && stream.sentTrailers === undefined) setImmediate(() => stream.close())
}

/** Outside the class: closures of one function share their captures, and one of them lives as long as the call. */
function readerOf(headers: IncomingHttpHeaders): HeaderReader {
  return name => headers[name]?.toString()
}

function ownCopy(chunk: Buffer): Buffer {
  return chunk.length < COPY_BELOW * chunk.buffer.byteLength ? Buffer.from(chunk) : chunk
}
