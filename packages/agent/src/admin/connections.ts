/**
 * The connections of one HTTP listener, each for one request. The share of all clients together is bounded: a new
 * connection is never refused for the sake of one that idles, reads slowly or never asks; the oldest of these goes.
 */
import type { Socket } from 'node:net'
import type { PeerCredentials } from '@livery/core'
import { after, type Clock } from '@livery/core/plugin'

/** Connections that have not sent the head of their request yet. */
const MAX_READING = 256
/** Connections whose answer is being made: the sum of the bounds of each kind of answer. */
const MAX_ANSWERING = 1_024
/** Connections to which an answer is being sent: many clients can have waited for the same one. */
const MAX_CLOSING = 512
/** Connections whose answer has no end. */
const MAX_STREAMING = 8
/** Connections whose large answer is ready, and waits for others to be read. */
const MAX_WAITING_FOR_ROOM = 64
/** Bytes of large answers in flight that clients have not been seen to take. */
const MAX_CLOSING_BYTES = 16 * 1024 * 1024
/** A client that reads has taken a large answer by then; until then no other cuts it. */
const READING_MS = 250
/** A longer head is refused with 431. */
export const MAX_HEAD_BYTES = 8_192
/** How long a head may take, and how long a client may take for an answer without any progress. */
const PATIENCE_MS = 5_000
/** How long an answer may take in all. */
const ANSWER_MS = 30_000
const SWEEP_MS = 1_000
/** The most that is read behind a request. Reading continues only to notice that the client leaves. */
const MAX_IGNORED_BYTES = 65_536
/** Longest time in one turn of the event loop for parsing and answering heads. */
const SLICE_MS = 1
/** A longer answer may not fit into the socket's buffer, and is not left to the kernel when its client is cut. */
const SMALL_ANSWER_BYTES = 16_384
const END_OF_HEAD = Buffer.from('\r\n\r\n')
const NO_BYTES = Buffer.alloc(0)

type State = 'reading' | 'answering' | 'streaming' | 'closing' | 'closed'

/** One connection, from the first byte of its request to the last of its answer. */
export class AdminConnection {
  readonly socket: Socket
  /** The peer of a UNIX socket. */
  readonly credentials: PeerCredentials | undefined
  state: State = 'reading'
  /** When it came into its state. */
  since: number
  /** When the client last took something of the answer. */
  progressAt: number
  /** Bytes of the answer written so far, or its length once that is known; for an endless answer, the unsent bytes. */
  bytes = 0
  readonly #pool: ConnectionPool
  readonly #gone = new AbortController()
  #head: Buffer = NO_BYTES
  #ignored = 0

  constructor(
    { socket, credentials }: { readonly socket: Socket; readonly credentials: PeerCredentials | undefined },
    pool: ConnectionPool,
    now: number,
  ) {
    this.socket = socket
    this.credentials = credentials
    this.#pool = pool
    this.since = now
    this.progressAt = now
    // A client that ends its side may still read.
    socket.allowHalfOpen = true
    socket.on('error', ignore).on('close', () => this.#onClose())
    socket.on('data', bytes => this.#onData(bytes)).on('end', () => this.#onEnd())
  }

  /** Aborted when the client has left, or was cut off. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  get head(): Buffer {
    return this.#head
  }

  write(bytes: Buffer, done: (error?: Error | null) => void): void {
    if (this.state === 'streaming' && this.bytes === 0) this.progressAt = this.#pool.now()
    if (this.state === 'answering' || this.state === 'streaming') this.bytes += bytes.length
    this.socket.write(bytes, error => {
      this.progressAt = this.#pool.now()
      if (this.state === 'streaming') this.bytes -= bytes.length
      done(error)
    })
  }

  /** Marks the answer as endless: no deadline while the client reads. `false` if too many are endless. */
  streams(): boolean {
    return this.#pool.stream(this)
  }

  /**
   * Resolves when there is room for an answer of `bytes`, which the caller writes then: from now on the connection may be cut
   * for others. Resolves with `false` if too many wait. Rejects with the reason of `gone`.
   */
  async answered(bytes: number): Promise<boolean> {
    if (bytes > SMALL_ANSWER_BYTES && !(await this.#pool.room(bytes, this.gone))) return false
    this.gone.throwIfAborted()
    this.bytes = bytes
    this.#pool.move(this, 'closing')
    return true
  }

  /** Answers a request that needs no parser. */
  refuse(answer: string): void {
    this.#pool.move(this, 'closing')
    this.socket.end(answer)
  }

  /** Everything is written. */
  finish(): void {
    this.#pool.move(this, 'closing')
    this.socket.end()
  }

  cut(): void {
    // The kernel would otherwise keep what it has not sent, for minutes.
    if (this.bytes > SMALL_ANSWER_BYTES && this.socket.remoteFamily !== undefined) this.socket.resetAndDestroy()
    else this.socket.destroy()
    this.#onClose()
  }

  #onData(bytes: Buffer): void {
    if (this.state !== 'reading' || this.#isComplete()) {
      this.#ignored += bytes.length
      if (this.#ignored > MAX_IGNORED_BYTES) this.socket.pause()
      return
    }
    const searchFrom = Math.max(0, this.#head.length - END_OF_HEAD.length)
    // A copy: the segment may be much longer, and would be kept.
    this.#head = Buffer.concat([this.#head, bytes.subarray(0, MAX_HEAD_BYTES + 1)])
    const at = this.#head.indexOf(END_OF_HEAD, searchFrom)
    if (at !== -1) this.#head = this.#head.subarray(0, at + END_OF_HEAD.length)
    if (at !== -1 || this.#head.length > MAX_HEAD_BYTES) this.#pool.onHead(this)
  }

  #isComplete(): boolean {
    return this.#head.length > MAX_HEAD_BYTES || this.#head.subarray(-END_OF_HEAD.length).equals(END_OF_HEAD)
  }

  /** The client may have ended its side only; without a whole request there is nothing to answer. */
  #onEnd(): void {
    if (this.state === 'reading' && !this.#isComplete()) this.cut()
    else this.#gone.abort()
  }

  #onClose(): void {
    this.#head = NO_BYTES
    this.#pool.move(this, 'closed')
    this.#gone.abort()
  }
}

export class ConnectionPool implements Disposable {
  readonly #clock: Clock
  readonly #answer: (connection: AdminConnection) => void
  readonly #byState: Readonly<Record<Exclude<State, 'closed'>, Set<AdminConnection>>> = {
    reading: new Set(),
    answering: new Set(),
    streaming: new Set(),
    closing: new Set(),
  }
  /** Connections with a head that is not answered yet, in the order in which they came. */
  readonly #asked = new Set<AdminConnection>()
  #closingBytes = 0
  #sweep: Disposable | undefined
  #isScheduled = false
  /** Called when there may be room for another large answer. */
  readonly #waitingForRoom = new Set<() => void>()

  /** Calls `answer` with each connection whose request's head is complete. `answer` calls `finish` in the end. */
  constructor(clock: Clock, answer: (connection: AdminConnection) => void) {
    this.#clock = clock
    this.#answer = answer
  }

  now(): number {
    return this.#clock.now()
  }

  get size(): number {
    const { reading, answering, streaming, closing } = this.#byState
    return reading.size + answering.size + streaming.size + closing.size
  }

  add(socket: Socket, credentials?: PeerCredentials): void {
    const { reading } = this.#byState
    reading.add(new AdminConnection({ socket, credentials }, this, this.now()))
    if (reading.size > MAX_READING) cutOldest(reading)
    this.#sweep ??= this.#planSweep()
  }

  /** Answers it in one of the next turns of the event loop, so that many that ask at once hold up nothing else. */
  onHead(connection: AdminConnection): void {
    this.#asked.add(connection)
    this.#schedule()
  }

  move(connection: AdminConnection, state: State): void {
    if (connection.state === 'closed' || connection.state === state) return
    this.#byState[connection.state].delete(connection)
    if (connection.state === 'closing') {
      this.#closingBytes -= connection.bytes
      this.#wake()
    }
    connection.state = state
    this.#asked.delete(connection)
    if (state === 'closed') return
    connection.since = this.now()
    this.#byState[state].add(connection)
    if (state !== 'closing') return
    this.#closingBytes += connection.bytes
    const { closing } = this.#byState
    if (closing.size > MAX_CLOSING) cutOldest(closing)
  }

  stream(connection: AdminConnection): boolean {
    if (this.#byState.streaming.size >= MAX_STREAMING) return false
    this.move(connection, 'streaming')
    return true
  }

  /** Waits for room for a large answer. Clients that have had time to read theirs are cut for it, the oldest first. */
  async room(bytes: number, gone: AbortSignal): Promise<boolean> {
    const { closing } = this.#byState
    while (this.#closingBytes > 0 && this.#closingBytes + bytes > MAX_CLOSING_BYTES && !gone.aborted) {
      const oldest = firstLarge(closing)
      if (oldest && this.now() - oldest.since >= READING_MS) oldest.cut()
      else if (this.#waitingForRoom.size >= MAX_WAITING_FOR_ROOM) return false
      else await this.#change(gone)
    }
    return true
  }

  /** Resolves when a connection has closed, when it is time to look again, or when `gone` is aborted. */
  async #change(gone: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waitingForRoom.add(resolve)
    gone.addEventListener('abort', () => resolve(), { once: true })
    using _timer = after(this.#clock, READING_MS, resolve)
    await promise
    this.#waitingForRoom.delete(resolve)
  }

  #wake(): void {
    for (const wake of this.#waitingForRoom) wake()
  }

  [Symbol.dispose](): void {
    this.#sweep?.[Symbol.dispose]()
    for (const connections of Object.values(this.#byState)) for (const connection of connections) connection.cut()
  }

  #schedule(): void {
    if (this.#isScheduled || this.#asked.size === 0) return
    this.#isScheduled = true
    setImmediate(() => this.#answerSome())
  }

  #answerSome(): void {
    this.#isScheduled = false
    const end = performance.now() + SLICE_MS
    for (const connection of this.#asked) {
      this.move(connection, 'answering')
      if (this.#byState.answering.size > MAX_ANSWERING) connection.cut()
      else this.#answer(connection)
      if (performance.now() >= end) break
    }
    this.#schedule()
  }

  #planSweep(): Disposable {
    const clock = this.#clock
    return after(clock, SWEEP_MS, () => {
      this.#cutLate()
      this.#sweep = this.size > 0 ? this.#planSweep() : undefined
    })
  }

  #cutLate(): void {
    const now = this.now()
    const { reading, answering, streaming, closing } = this.#byState
    for (const connection of reading) if (now - connection.since >= PATIENCE_MS) connection.cut()
    for (const connection of closing) {
      const stalledFor = now - Math.max(connection.since, connection.progressAt)
      if (stalledFor >= PATIENCE_MS || now - connection.since >= ANSWER_MS) connection.cut()
    }
    for (const connection of streaming)
      if (connection.bytes > 0 && now - connection.progressAt >= PATIENCE_MS) connection.cut()
    for (const connection of answering) {
      const isStalled = connection.socket.writableNeedDrain && now - connection.progressAt >= PATIENCE_MS
      if (isStalled || now - connection.since >= ANSWER_MS) connection.cut()
    }
  }
}

function cutOldest(connections: ReadonlySet<AdminConnection>): void {
  const [oldest] = connections
  oldest?.cut()
}

function firstLarge(connections: ReadonlySet<AdminConnection>): AdminConnection | undefined {
  for (const connection of connections) if (connection.bytes > SMALL_ANSWER_BYTES) return connection
  return undefined
}

function ignore(): void {}
