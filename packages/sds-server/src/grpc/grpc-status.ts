/** The end of a gRPC call: statuses (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md), and how they are sent. */
import type { ServerHttp2Stream } from 'node:http2'
import { type RefusalCode, StreamRefusal } from '../protocol/stream-refusal.ts'

const CODES: Record<RefusalCode, number> = {
  'invalid-argument': 3,
  'deadline-exceeded': 4,
  'not-found': 5,
  'permission-denied': 7,
  'resource-exhausted': 8,
  unimplemented: 12,
  unavailable: 14,
}
const INTERNAL = 13

export interface CallStatus {
  readonly code: number
  readonly details: string
}

export const OK: CallStatus = { code: 0, details: 'OK' }
/** The status while the server has not ended a call. */
export const NOT_ENDED: CallStatus = { code: 0, details: '' }
export const UNAVAILABLE = CODES.unavailable

/** The status for a `StreamRefusal`, or for a bug. */
export function statusOf(error: unknown): CallStatus {
  if (error instanceof StreamRefusal) return { code: CODES[error.code], details: error.message }
  // An unexpected error's own text could hold anything, so it stays here.
  return { code: INTERNAL, details: 'internal error: see the log of the agent' }
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

/** Sends the headers of an answer with messages. */
export function respond(stream: ServerHttp2Stream): void {
  stream.respond(RESPONSE, WITH_TRAILERS)
}

/** Ends an answer, behind the messages that were written; `onSent` is called when the status is sent. */
export function sendStatus(stream: ServerHttp2Stream, { code, details }: CallStatus, onSent: () => void): void {
  const trailers = { 'grpc-status': String(code), 'grpc-message': encodeURI(details.toWellFormed()) }
  if (!stream.headersSent) {
    stream.respond({ ...HEADERS, ...trailers }, WITHOUT_BODY)
    onSent()
    return
  }
  stream.once('wantTrailers', () => {
    stream.sendTrailers(trailers)
    onSent()
  })
  stream.end()
}

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
export function closeAnswered(stream: ServerHttp2Stream): void {
  // A reset overtakes headers of the same turn of the event loop since Node 26.8.
  if (!stream.readableEnded && stream.sentTrailers === undefined) setImmediate(() => stream.close())
}
