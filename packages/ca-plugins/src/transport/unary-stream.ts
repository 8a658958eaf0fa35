/** One unary gRPC call on an HTTP/2 session: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
} from 'node:http2'
import { Metadata, type ServiceError, status } from '@grpc/grpc-js'
import { serviceError } from './grpc-status.ts'
import { MessageReader, PREFIX_BYTES } from './message-reader.ts'

/** gRPC has no use for interim answers, and a proxy sends one or two. */
const MAX_INTERIM_ANSWERS = 16

/** The longest answer that is read: a chain of ten large certificates, several times over. */
const MAX_ANSWER_BYTES = 1_048_576

/**
 * `headers`: alternating names and values, the pseudo-headers first, since taking an object apart costs Node time.
 * Resolves with the message of the answer. Rejects with a `ServiceError`, or with the signal's reason; the stream is then cancelled.
 */
export function callUnary(
  session: ClientHttp2Session,
  headers: readonly string[],
  message: Uint8Array,
  signal: AbortSignal,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    new UnaryStream(session, headers, { signal, resolve, reject }).send(message)
  })
}

type Headers = IncomingHttpHeaders & IncomingHttpStatusHeader

interface Outcome {
  readonly signal: AbortSignal
  readonly resolve: (message: Buffer) => void
  readonly reject: (reason: unknown) => void
}

/** The key of a stream's call, which is set until the call is settled. */
const CALL = Symbol('call')

type CallStream = ClientHttp2Stream & { [CALL]?: UnaryStream | undefined }

class UnaryStream {
  readonly #session: ClientHttp2Session
  readonly #stream: CallStream
  readonly #reader = new MessageReader(MAX_ANSWER_BYTES)
  readonly #outcome: Outcome
  #interimAnswers = 0
  #httpStatus: number | undefined
  #trailers: IncomingHttpHeaders | undefined
  #error: Error | undefined

  constructor(session: ClientHttp2Session, headers: readonly string[], outcome: Outcome) {
    this.#session = session
    this.#outcome = outcome
    this.#stream = openStream(session, headers)
    this.#stream[CALL] = this
    listen(this.#stream)
    outcome.signal.addEventListener('abort', this.#onAbort)
  }

  send(message: Uint8Array): void {
    const framed = Buffer.allocUnsafe(PREFIX_BYTES + message.length)
    framed[0] = 0
    framed.writeUInt32BE(message.length, 1)
    framed.set(message, PREFIX_BYTES)
    this.#stream.end(framed)
  }

  readonly #onAbort = (): void => this.#cancel(this.#outcome.signal.reason)

  onResponse(headers: Headers, isAll: boolean): void {
    this.#httpStatus = headers[':status']
    if (isAll) this.#trailers = headers
    else if (this.#httpStatus !== constants.HTTP_STATUS_OK) this.#cancel(statusOfHttp(this.#httpStatus))
    else if (!isGrpc(headers))
      this.#cancel(serviceError(status.UNKNOWN, `The answer is not gRPC but ${typeOf(headers)}`))
  }

  /** Counts answers of a status 1xx: without a bound they would continue until the deadline. */
  onInterimAnswer(): void {
    if (++this.#interimAnswers > MAX_INTERIM_ANSWERS)
      this.#cancel(
        serviceError(status.INTERNAL, `The server sent more than ${MAX_INTERIM_ANSWERS} interim answers (1xx)`),
      )
  }

  onTrailers(trailers: IncomingHttpHeaders): void {
    this.#trailers = trailers
  }

  onData(data: Buffer): void {
    try {
      this.#reader.add(data)
    } catch (error) {
      this.#cancel(error)
    }
  }

  /** Everything was read. A stream without trailers is about to close with the reason. */
  onEnd(): void {
    if (this.#trailers) this.finish()
  }

  onError(error: Error): void {
    this.#error = error
  }

  /** Settles with the answer, or why there is none. */
  finish(): void {
    this.#settle()
    try {
      this.#outcome.resolve(this.#answer())
    } catch (error) {
      this.#outcome.reject(error)
    }
  }

  #cancel(reason: unknown): void {
    this.#settle()
    this.#outcome.reject(reason)
    this.#stream.close(constants.NGHTTP2_CANCEL)
  }

  /** Nothing is heard of the stream any more. */
  #settle(): void {
    // Only a full garbage collection frees a closed stream and what it holds: the answer, the request.
    this.#stream[CALL] = undefined
    this.#outcome.signal.removeEventListener('abort', this.#onAbort)
  }

  /** Returns the message if the status is OK. */
  #answer(): Buffer {
    if (!this.#trailers) throw this.#brokenOff()
    const failure = failureIn(this.#trailers, this.#httpStatus)
    if (failure) throw failure
    return this.#reader.message()
  }

  /** The server closed the stream without a status, or its connection is gone. */
  #brokenOff(): ServiceError {
    const reason = this.#error && isOfConnection(this.#error) ? `: ${this.#error.message}` : ''
    if (this.#session.destroyed || reason !== '')
      return serviceError(status.UNAVAILABLE, `The connection was lost${reason}`)
    const { rstCode = constants.NGHTTP2_INTERNAL_ERROR } = this.#stream
    const known = RESET_STATUS.get(rstCode)
    return known
      ? serviceError(...known)
      : serviceError(status.INTERNAL, `The stream was reset with code ${rstCode} and without a status`)
  }
}

/** All streams share these listeners. They stay: a stream that fails after its answer must not end the process. */
function listen(stream: CallStream): void {
  stream
    .on('response', onResponse)
    .on('headers', onInterimAnswer)
    .on('trailers', onTrailers)
    .on('data', onData)
    .on('end', onEnd)
    .on('error', onError)
    .on('close', onClose)
}

function onResponse(this: CallStream, headers: Headers, flags: number): void {
  this[CALL]?.onResponse(headers, (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0)
}

function onInterimAnswer(this: CallStream): void {
  this[CALL]?.onInterimAnswer()
}

function onTrailers(this: CallStream, trailers: IncomingHttpHeaders): void {
  this[CALL]?.onTrailers(trailers)
}

function onData(this: CallStream, data: Buffer): void {
  this[CALL]?.onData(data)
}

function onEnd(this: CallStream): void {
  this[CALL]?.onEnd()
}

function onError(this: CallStream, error: Error): void {
  this[CALL]?.onError(error)
}

function onClose(this: CallStream): void {
  this[CALL]?.finish()
}

/** Node refuses names and values that HTTP/2 does not allow. */
function openStream(session: ClientHttp2Session, headers: readonly string[]): ClientHttp2Stream {
  try {
    return session.request(headers)
  } catch (error) {
    throw serviceError(status.INTERNAL, `The call cannot be sent: ${error instanceof Error ? error.message : error}`)
  }
}

const RESET_STATUS: ReadonlyMap<number, readonly [status, string]> = new Map([
  [constants.NGHTTP2_NO_ERROR, [status.INTERNAL, 'The answer ended without a status']],
  [constants.NGHTTP2_REFUSED_STREAM, [status.UNAVAILABLE, 'The server refused the stream']],
  [constants.NGHTTP2_CANCEL, [status.CANCELLED, 'The server cancelled the call']],
  [constants.NGHTTP2_ENHANCE_YOUR_CALM, [status.RESOURCE_EXHAUSTED, 'The server asks for less']],
  [
    constants.NGHTTP2_INADEQUATE_SECURITY,
    [status.PERMISSION_DENIED, 'The connection is not secure enough for the server'],
  ],
] as const)

/** Node derives ERR_HTTP2_STREAM_ERROR from a RST_STREAM, whose code says more. */
function isOfConnection(error: Error): boolean {
  return !('code' in error) || error.code !== 'ERR_HTTP2_STREAM_ERROR'
}

/** The status of an answer, unless it is OK. */
function failureIn(trailers: IncomingHttpHeaders, httpStatus: number | undefined): ServiceError | undefined {
  const text = textOf(trailers['grpc-status'])
  if (text === undefined) return statusOfHttp(httpStatus)
  const code = /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN
  if (code === status.OK) return undefined
  const details = decodeMessage(textOf(trailers['grpc-message']) ?? '')
  return serviceError(code in status ? code : status.UNKNOWN, details, statusDetailsIn(trailers))
}

/** The only detail read beside the status: when to ask again. */
function statusDetailsIn(trailers: IncomingHttpHeaders): Metadata {
  const metadata = new Metadata()
  const details = textOf(trailers['grpc-status-details-bin'])
  if (details !== undefined) metadata.set('grpc-status-details-bin', Buffer.from(details, 'base64'))
  return metadata
}

/** https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md */
const HTTP_STATUS: ReadonlyMap<number | undefined, status> = new Map([
  [400, status.INTERNAL],
  [401, status.UNAUTHENTICATED],
  [403, status.PERMISSION_DENIED],
  [404, status.UNIMPLEMENTED],
  [429, status.UNAVAILABLE],
  [502, status.UNAVAILABLE],
  [503, status.UNAVAILABLE],
  [504, status.UNAVAILABLE],
])

function statusOfHttp(code: number | undefined): ServiceError {
  return serviceError(
    HTTP_STATUS.get(code) ?? status.UNKNOWN,
    `Received HTTP status code ${code} without a gRPC status`,
  )
}

function isGrpc(headers: IncomingHttpHeaders): boolean {
  return /^application\/grpc(?:[+;]|$)/.test(headers['content-type'] ?? '')
}

/** Describes an answer that is not gRPC, enough to recognize a proxy's page. */
function typeOf(headers: IncomingHttpHeaders): string {
  return (headers['content-type'] ?? 'of no type').slice(0, 64)
}

function textOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.[0]
}

/** Decodes percent-encoded UTF-8; any other text stays unchanged. */
function decodeMessage(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
