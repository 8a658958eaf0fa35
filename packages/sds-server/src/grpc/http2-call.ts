/**
 * A gRPC call on its HTTP/2 stream, without the call object of grpc-js, which costs more than all else that opens a stream:
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { after, type Clock } from '@livery/core'
import type { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { writeFrame } from './send-frame.ts'
import type { CallListener, CallStatus, DataSink, HeaderReader, StreamTransport } from './stream-transport.ts'

const HEADERS = {
  ':status': '200',
  'content-type': 'application/grpc+proto',
  'grpc-accept-encoding': 'identity,deflate,gzip',
}
/** Names and values in turn: Node keeps what it is given as long as the stream, of an object a copy for each, of a list the list itself. */
const RESPONSE: readonly string[] = Object.entries(HEADERS).flat()
/** Without a date, which Node would add to the list above. gRPC has no use for it. */
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

/** A call that is open for hours keeps no headers. */
export class Http2Call implements StreamTransport {
  readonly stream: ServerHttp2Stream
  readonly #peer: string
  readonly #clock: Clock
  #headers: IncomingHttpHeaders | undefined
  #listener: CallListener | undefined
  #deadline: Disposable | undefined
  #hasStatus = false
  #hasEnded = false

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: string, clock: Clock) {
    this.stream = stream
    this.#headers = headers
    this.#peer = peer
    this.#clock = clock
  }

  getPeer(): string {
    return this.#peer
  }

  start(requests: DataSink, listener: CallListener): void {
    const { stream } = this
    const headers = this.#headers ?? {}
    this.#headers = undefined
    this.#listener = listener
    stream.on('close', () => this.#end())
    listener.onHeaders(readerOf(headers))
    const timeout = headers['grpc-timeout']
    // A call that was refused for its headers would otherwise be held until then.
    if (timeout !== undefined && !this.#hasEnded) this.#setDeadline(timeout.toString(), listener)
    this.#read(requests)
  }

  sendFrame(frame: ResponseFrame, unsent: UnsentMemory, onWritten: () => void): void {
    const { stream } = this
    if (!stream.headersSent && !stream.destroyed && !stream.closed) stream.respond(RESPONSE, WITH_TRAILERS)
    writeFrame(stream, frame, unsent, onWritten)
  }

  sendStatus({ code, details }: CallStatus): void {
    const { stream } = this
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

  /**
   * Replaces the hook to which Node gives each DATA frame. The buffer behind it costs a tenth of a response, and is of use
   * only while frames wait in it.
   */
  #read(requests: DataSink): void {
    const { stream } = this
    const { push } = stream
    stream.push = (data: Buffer | null) => {
      if (data === null || stream.readableLength > 0) return push.call(stream, data)
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
      listener.onRefusal(new StreamRefusal('invalid-argument', 'the header grpc-timeout is not a time, such as 10S'))
      return
    }
    this.#deadline = after(this.#clock, Number(amount) * unitMs, () =>
      listener.onRefusal(new StreamRefusal('deadline-exceeded', 'the deadline of the caller has passed')),
    )
  }

  #end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#deadline?.[Symbol.dispose]()
    // What the peer still sends must not fill the window of its connection.
    this.stream.resume()
    // The caller of `sendStatus` comes first.
    process.nextTick(() => this.#listener?.onEnd())
  }
}

/** Outside of the class: closures of one function share what they capture, and one of them lives as long as the call. */
function readerOf(headers: IncomingHttpHeaders): HeaderReader {
  return name => headers[name]?.toString()
}
