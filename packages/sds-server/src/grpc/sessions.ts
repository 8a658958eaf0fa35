/** The HTTP/2 sessions of one socket: probed by PINGs, closed when idle, sent GOAWAY when the socket closes. */
import { performServerHandshake, type ServerHttp2Session, type ServerOptions } from 'node:http2'
import type { Socket } from 'node:net'
import type { Clock } from '@livery/core/plugin'
import { DeadlineQueue, type Late } from '../budget/deadline-queue.ts'
import { UNPROVEN_STREAMS } from '../budget/stream-allowance.ts'

/** `x-forwarded-for`, tokens in `initial_metadata`: Envoy sends about ten headers in half a kilobyte. */
const MAX_HEADERS = { maxHeaderListPairs: 64, maxHeaderListSize: 16_384 }
/** The HTTP/2 memory of one connection without its streams: the queue of frames, and header tables. */
const SESSION_MEMORY_MB = 16
/** The HTTP/2 memory of one stream, with a response in flight. */
const STREAM_MEMORY_KB = 8

/** See `SdsServerOptions`. */
export interface SessionTimes {
  readonly clock: Clock
  readonly connectionIdleMs: number
  readonly keepaliveMs: number
  readonly keepaliveTimeoutMs: number
}

export class Sessions implements Disposable {
  readonly #http2: ServerOptions
  readonly #open = new Set<ServerHttp2Session>()
  readonly #idle: DeadlineQueue
  readonly #quiet: DeadlineQueue
  readonly #probed: DeadlineQueue

  /** `maxStreams`: the most streams of the socket. */
  constructor({ clock, connectionIdleMs, keepaliveMs, keepaliveTimeoutMs }: SessionTimes, maxStreams: number) {
    const { maxHeaderListPairs, maxHeaderListSize } = MAX_HEADERS
    this.#http2 = {
      maxHeaderListPairs,
      settings: { maxHeaderListSize, maxConcurrentStreams: Math.min(maxStreams, UNPROVEN_STREAMS) },
      // A connection over this bound gets no new streams.
      maxSessionMemory: SESSION_MEMORY_MB + Math.ceil((maxStreams * STREAM_MEMORY_KB) / 1024),
    }
    this.#idle = new DeadlineQueue(clock, connectionIdleMs)
    this.#quiet = new DeadlineQueue(clock, keepaliveMs)
    this.#probed = new DeadlineQueue(clock, keepaliveTimeoutMs)
  }

  /** Speaks HTTP/2 on a connection. */
  open(socket: Socket): ServerHttp2Session {
    const session = performServerHandshake(socket, this.#http2)
    this.#open.add(session)
    session.once('close', () => this.#open.delete(session))
    this.#closeWhenIdle(session)
    this.#probe(session)
    return session
  }

  /** Sends GOAWAY, so that each peer opens its next stream elsewhere, and closes sessions without streams. */
  drain(): void {
    for (const session of this.#open) if (!session.closed) session.close()
  }

  [Symbol.dispose](): void {
    for (const queue of [this.#idle, this.#quiet, this.#probed]) queue[Symbol.dispose]()
  }

  #closeWhenIdle(session: ServerHttp2Session): void {
    const late: Late = { onLate: () => session.close() }
    let streams = 0
    const onClose = () => {
      if (--streams === 0 && !session.closed) this.#idle.add(late)
    }
    session.on('stream', stream => {
      if (stream.destroyed) return
      if (streams++ === 0) this.#idle.delete(late)
      stream.once('close', onClose)
    })
    session.once('close', () => this.#idle.delete(late))
    this.#idle.add(late)
  }

  /** Closes the session of a peer that does not answer a PING in time. */
  #probe(session: ServerHttp2Session): void {
    let probes = 0
    const unanswered: Late = { onLate: () => afterReading(probes) }
    // An answer that came while the event loop was busy, or the machine slept, is read in the turns after the timer.
    const afterReading = (probe: number) =>
      void setImmediate(() => setImmediate(() => void (probe === probes && session.destroy())))
    const quiet: Late = {
      onLate: () => {
        if (session.destroyed) return
        const isSent = session.ping(error => {
          probes++
          this.#probed.delete(unanswered)
          if (!error && !session.destroyed) this.#quiet.add(quiet)
        })
        if (isSent) this.#probed.add(unanswered)
        else session.destroy()
      },
    }
    session.once('close', () => {
      this.#quiet.delete(quiet)
      this.#probed.delete(unanswered)
    })
    this.#quiet.add(quiet)
  }
}
