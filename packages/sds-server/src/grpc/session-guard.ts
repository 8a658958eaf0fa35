/** Watches a peer's use of HTTP/2 itself: its preface, its control frames, its headers, and their rates. */
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import { after, type Clock, systemErrorCode } from '@livery/core/plugin'
import type { Connection } from '../access/connection.ts'
import { COSTS } from '../budget/caller-budget.ts'
import { FRAME_COSTS } from '../budget/caller-reads.ts'
import type { DeadlineQueue, Late } from '../budget/deadline-queue.ts'
import { LeakyBucket, type Rate } from '../budget/leaky-bucket.ts'
import type { OpeningQueue } from '../budget/opening-queue.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { refuseMediaType } from './grpc-status.ts'
import { Http2Call } from './http2-call.ts'
import { learnFrom, onUnreportedStreams } from './unreported-streams.ts'

/**
 * SETTINGS and GOAWAY of one connection. PINGs have no listener, for which Node would enter JavaScript: nghttp2 answers them, ends a
 * session of 1,000 that wait for their answers, and their bytes are counted as overhead.
 */
const CONTROL_FRAMES: Rate = { perSecond: 1, burst: 100 }
/** An open call keeps both texts in memory. */
const MAX_AUTHORITY = 255
const MAX_SCHEME = 16
/** Node and nghttp2 end a session for floods that they do not report: a thousand resets, PINGs or headers too many at once. */
const SESSION_ERROR_FAULTS = 250
/**
 * nghttp2's PROTOCOL_ERROR, which ends the connection at the first such frame. gRPC in Go causes it each time it leaves: its
 * GOAWAY names a last stream that no server opened.
 */
const NGHTTP2_ERR_PROTO = -505
const CONTENT_TYPE = 'application/grpc'
/** The peer left before it read everything, like a program that is killed: not a flood. */
const PEER_LEFT: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE'])
/** How often the bytes of all connections are counted. */
const SWEEP_MS = 1_000
const NGHTTP2_PROTOCOL_ERROR = 1
/** Microseconds for a byte of header fields that refer to the table of HPACK, measured and rounded up. */
const SILENT_COST = 0.05
const NGHTTP2_ENHANCE_YOUR_CALM = 11

/** Serves a call, or refuses it. */
export type CallOpener = (call: Http2Call, connection: Connection) => void

interface SessionGuardOptions {
  readonly clock: Clock
  /** The served methods by path. */
  readonly methods: ReadonlyMap<string, CallOpener>
  readonly openings: OpeningQueue
  /** The deadline of the preface and SETTINGS of a connection. */
  readonly deadlines: DeadlineQueue
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

  [Symbol.dispose](): void {
    this.#sweep?.[Symbol.dispose]()
    this.#sweep = undefined
    this.#unreported[Symbol.dispose]()
  }

  /** Call it before the session has read anything. */
  watch(session: ServerHttp2Session, connection: Connection): void {
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
    session.on('remoteSettings', () => {
      deadlines.delete(late)
      onControl()
    })
    session.on('stream', (stream, headers) => {
      // The stream's end handles the error.
      stream.on('error', ignore)
      learnFrom(stream)
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
        // The opened call is charged by its kind from here on.
        if (isHeld) budget.release(COSTS.stream)
        if (stream.destroyed || stream.closed) {
          if (!connection.closing.hasBegun) this.#fault(connection, 1, false)
        } else this.#open(connection, stream, headers)
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

  #open(connection: Connection, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const { methods, clock } = this.#options
    if (!headers['content-type']?.startsWith(CONTENT_TYPE)) {
      refuseMediaType(stream)
      return
    }
    const call = new Http2Call(stream, headers, clock)
    const open = methods.get(headers[':path'] ?? '')
    if (open) open(call, connection)
    else call.refuse(new StreamRefusal('unimplemented', 'this socket does not serve that method'))
  }

  /** Whether the stream is to be answered; a path that is not served is a fault as well. */
  #isFit(connection: Connection, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean {
    const { ':authority': authority = '', ':scheme': scheme = '', ':path': path = '', ':method': method } = headers
    const { closing } = connection
    // An answer to a HEAD has no body, and nothing behind its headers would end it.
    const isUnfit = method !== 'POST' || authority.length > MAX_AUTHORITY || scheme.length > MAX_SCHEME
    if (isUnfit || !this.#options.methods.has(path)) this.#fault(connection, 1, false)
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
