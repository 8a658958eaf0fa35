/** Closes the thousands of streams of one connection in slices: Node would close all in one turn of the event loop. */
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { startReading, stopReading } from '../socket/socket-reading.ts'
import { NextTurn } from './next-turn.ts'

/** The streams of all connections together: about 4 ms of work, nearly all in callbacks of Node after the slice. */
const STREAMS_OF_A_SLICE = 128
const NGHTTP2_CANCEL = 8

/** First come, first served. One for the whole server, so that its connections share the time. */
export class ClosingQueue {
  readonly #waiting = new Set<PacedClosing>()
  readonly #nextTurn = new NextTurn(() => this.#slice())

  add(closing: PacedClosing): void {
    this.#waiting.add(closing)
    this.#nextTurn.schedule()
  }

  delete(closing: PacedClosing): void {
    this.#waiting.delete(closing)
  }

  #slice(): void {
    let left = STREAMS_OF_A_SLICE
    for (const closing of this.#waiting) {
      left -= closing.closeStreams(left)
      if (left <= 0) break
      closing.endNow()
    }
    if (this.#waiting.size > 0) this.#nextTurn.schedule()
  }
}

/**
 * A connection ends at its socket (the peer left, or the server destroys it) or at its session (an error of HTTP/2, a PING
 * without an answer). Both ends wait here for the streams.
 */
export class PacedClosing {
  readonly #socket: Socket
  readonly #queue: ClosingQueue
  readonly #streams = new Set<ServerHttp2Stream>()
  readonly #ends: (() => void)[] = []
  #hasBegun = false

  constructor(socket: Socket, queue: ClosingQueue) {
    this.#socket = socket
    this.#queue = queue
    // Node's hook for subclasses of a stream: the descriptor stays open until its callback runs.
    const destroy = socket._destroy.bind(socket)
    socket._destroy = (error, done) => this.#begin(() => destroy(error, done))
  }

  /** Whether it closes: a stream that opens now is useless. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** Call it once, before the session has a stream. `onEnd`: Node ends a session again for each frame behind the one that broke the protocol. */
  watch(session: ServerHttp2Session, onEnd: () => void): void {
    const destroy = session.destroy.bind(session)
    session.destroy = (error, code) => {
      onEnd()
      this.#begin(() => destroy(error, code))
    }
  }

  add(stream: ServerHttp2Stream): void {
    this.#streams.add(stream)
    stream.on('close', () => this.#streams.delete(stream))
  }

  /** Closes at most `most` streams, and returns how many. */
  closeStreams(most: number): number {
    let closed = 0
    for (const stream of this.#streams) {
      if (closed === most) break
      closed++
      this.#streams.delete(stream)
      stream.close(NGHTTP2_CANCEL)
      stream.destroy()
    }
    return closed
  }

  /** Ends the connection, with the streams that are left, if it has begun to close. */
  endNow(): void {
    this.#queue.delete(this)
    // A session that ends in good order waits for the peer's end.
    startReading(this.#socket)
    for (const end of this.#ends.splice(0)) end()
  }

  #begin(end: () => void): void {
    this.#hasBegun = true
    if (this.#streams.size === 0) {
      end()
      return
    }
    stopReading(this.#socket)
    this.#ends.push(end)
    this.#queue.add(this)
  }
}
