/** Watches what a peer does with HTTP/2 itself: its preface, its control frames, its headers, and how often. */
import type { Http2Server, IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import { after, type Clock, systemErrorCode } from '@livery/core'
import type { Connection } from '../access/connection.ts'
import { COSTS } from '../budget/caller-budget.ts'
import { FRAME_COSTS } from '../budget/caller-reads.ts'
import type { DeadlineQueue, Late } from '../budget/deadline-queue.ts'
import { LeakyBucket, type Rate } from '../budget/leaky-bucket.ts'
import type { OpeningQueue } from '../budget/opening-queue.ts'
import { learnFrom, onUnreportedStreams } from './unreported-streams.ts'

/**
 * For one connection. An Envoy that is configured to send PINGs sends one in 10 s. PINGs for each call and for each message
 * sent do not count: gRPC in Go estimates its window by one for each message that it reads.
 */
const CONTROL_FRAMES: Rate = { perSecond: 1, burst: 100 }
/** A call holds both texts while it is open. */
const MAX_AUTHORITY = 255
const MAX_SCHEME = 16
/** Node and nghttp2 end a session for floods that they do not report: a thousand resets, PINGs or headers too many at once. */
const SESSION_ERROR_FAULTS = 250
/**
 * nghttp2's PROTOCOL_ERROR, which ends the connection at the first such frame. gRPC in Go causes it each time it leaves: its
 * GOAWAY names a last stream that no server opened.
 */
const NGHTTP2_ERR_PROTO = -505
/** The peer left before it read everything, as programs do that are killed: not a flood. */
const PEER_LEFT: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE'])
/** How often the bytes of all connections are counted. */
const SWEEP_MS = 1_000
const NGHTTP2_PROTOCOL_ERROR = 1
/** Microseconds for a byte of header fields that refer to the table of HPACK, measured and rounded up. */
const SILENT_COST = 0.05
const NGHTTP2_ENHANCE_YOUR_CALM = 11

export interface SessionGuardOptions {
  readonly clock: Clock
  readonly paths: ReadonlySet<string>
  readonly openings: OpeningQueue
  /** The deadline of the preface and SETTINGS of a connection. */
  readonly deadlines: DeadlineQueue
  /** The connection with that remote address. */
  connectionOf(peer: string): Connection | undefined
  /** Opens a stream that grpc-js need not see; `false` hands it to grpc-js. */
  openDirectly(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: string): boolean
  connections(): Iterable<Connection>
}

export class SessionGuard implements Disposable {
  readonly #options: SessionGuardOptions
  #sweep: Disposable | undefined
  readonly #unreported: Disposable

  constructor(options: SessionGuardOptions) {
    this.#options = options
    this.#unreported = onUnreportedStreams(() => this.#look(SILENT_COST))
  }

  /** Call it before the server gets its first connection. */
  watch(http2: Http2Server): void {
    http2.on('session', session => this.#watchSession(session, http2))
  }

  [Symbol.dispose](): void {
    this.#sweep?.[Symbol.dispose]()
    this.#sweep = undefined
    this.#unreported[Symbol.dispose]()
  }

  #watchSession(session: ServerHttp2Session, http2: Http2Server): void {
    const peer = session.socket?.remoteAddress ?? ''
    const connection = this.#options.connectionOf(peer)
    if (!connection) return
    const { reads } = connection.budget.account
    connection.closing.watch(session, () => reads.spend(FRAME_COSTS.control))
    connection.allowance.watch(session)
    const { deadlines, clock } = this.#options
    const late: Late = { onLate: () => this.#fault(connection, 1, true) }
    deadlines.add(late)
    const control = new LeakyBucket()
    const onControl = () => {
      reads.spend(FRAME_COSTS.control)
      if (!control.add(clock.now(), CONTROL_FRAMES)) this.#fault(connection, 1, true)
    }
    let answersPinged = 0
    const onPing = () => {
      if (answersPinged >= connection.answers) {
        onControl()
        return
      }
      answersPinged++
      reads.spend(FRAME_COSTS.control)
    }
    session.on('remoteSettings', () => {
      deadlines.delete(late)
      onControl()
    })
    session.on('ping', onPing)
    // Node's own listener gives each stream to grpc-js, which throws where it must answer one that is closed already.
    session.removeAllListeners('stream')
    session.on('stream', (stream, headers, ...rest) => {
      // grpc-js listens once it has the stream, which can have failed by then.
      stream.on('error', ignore)
      learnFrom(stream)
      connection.answers++
      reads.spend(FRAME_COSTS.stream)
      if (!this.#isFit(connection, stream, headers)) return
      const { budget } = connection
      let isHeld = false
      const hold = () => {
        isHeld = budget.charge(COSTS.stream)
        if (isHeld) return true
        this.#fault(connection, 1, false)
        stream.close(NGHTTP2_ENHANCE_YOUR_CALM)
        return false
      }
      const open = () => {
        // From then on it is charged as what it is.
        if (isHeld) budget.release(COSTS.stream)
        if (stream.destroyed || stream.closed) {
          if (!connection.closing.hasBegun) this.#fault(connection, 1, false)
        } else if (!this.#options.openDirectly(stream, headers, peer)) http2.emit('stream', stream, headers, ...rest)
      }
      this.#options.openings.add(reads, { stream, hold, open })
    })
    session.on('goaway', onControl)
    session.on('error', (error: NodeJS.ErrnoException) => {
      const isSingle = error.errno === NGHTTP2_ERR_PROTO || PEER_LEFT.has(systemErrorCode(error))
      this.#fault(connection, isSingle ? 1 : SESSION_ERROR_FAULTS, true)
    })
    session.on('close', () => deadlines.delete(late))
    this.#arm()
  }

  /** Whether grpc-js is to answer the stream; a path that it does not know is a fault as well. */
  #isFit(connection: Connection, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean {
    const { ':authority': authority = '', ':scheme': scheme = '', ':path': path = '', ':method': method } = headers
    const { closing } = connection
    // An answer to a HEAD has no body, and nothing behind its headers would end it.
    const isUnfit = method !== 'POST' || authority.length > MAX_AUTHORITY || scheme.length > MAX_SCHEME
    if (isUnfit || !this.#options.paths.has(path)) this.#fault(connection, 1, false)
    if (isUnfit || closing.hasBegun) {
      stream.close(NGHTTP2_PROTOCOL_ERROR)
      return false
    }
    if (!stream.destroyed) closing.add(stream)
    return true
  }

  /** Counts bytes outside of messages: headers, control frames, padding, ignored frames. `cost`: of one, for its caller. */
  #look(cost: number): void {
    const now = this.#options.clock.now()
    for (const connection of this.#options.connections()) {
      const overhead = connection.takeOverhead()
      if (overhead <= 0) continue
      connection.budget.account.reads.spend(overhead * cost)
      if (!connection.budget.addOverhead(now, overhead)) this.#fault(connection, overhead >>> 10, false)
    }
  }

  #arm(): void {
    if (this.#sweep) return
    const { clock } = this.#options
    this.#sweep = after(clock, SWEEP_MS, () => {
      this.#sweep = undefined
      this.#look(0)
      for (const _ of this.#options.connections()) {
        this.#arm()
        return
      }
    })
  }

  #fault(connection: Connection, amount: number, isFatal: boolean): void {
    const isOver = !connection.budget.addFaults(this.#options.clock.now(), amount)
    if (isFatal || isOver) connection.close()
  }
}

function ignore(): void {}
