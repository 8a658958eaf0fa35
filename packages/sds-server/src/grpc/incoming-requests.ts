/** The requests of one stream: read one at a time, held to a deadline, and charged to their caller while they wait. */
import type { Readable } from 'node:stream'
import type { Connection } from '../access/connection.ts'
import type { DeadlineQueue, Late } from '../budget/deadline-queue.ts'
import type { RequestReader } from '../budget/request-queue.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { MessageAssembler, ownCopy } from './message-assembler.ts'

/** The bounds of each request. */
export interface RequestBounds {
  readonly maxBytes: number
  /** The deadline of a first message, and of a message that began. */
  readonly deadlines: DeadlineQueue
}

export interface RequestListener {
  /** Receives one message, which can be a view of a reused buffer. */
  onMessage(message: Buffer): void
  /** The peer has ended its side, and every message before that was handed out. */
  onHalfClose(): void
  /** Ends the call, with a `StreamRefusal` or for a bug, and calls `stop`. */
  refuse(error: unknown): void
}

/** `queued`: a message has arrived, and waits for the turn of its caller. `suspended`: no message is wanted. */
type State = 'reading' | 'queued' | 'suspended' | 'over'

/**
 * Takes every DATA frame of a stream, and hands out each message when its caller's turn has come. What comes while no message is
 * handed out waits in the window of the peer (64 KiB), and is charged.
 */
export class IncomingRequests implements Late, RequestReader {
  readonly #stream: Readable
  readonly #connection: Connection
  readonly #deadlines: DeadlineQueue
  readonly #listener: RequestListener
  readonly #assembler: MessageAssembler
  #state: State = 'reading'
  /** The message that has a deadline: the first one, or one that began. */
  #due: 'first' | 'begun' | undefined = 'first'
  /** Bytes that were read and not handed out yet. */
  #rest: Buffer | undefined
  #charged = 0

  constructor(
    stream: Readable,
    connection: Connection,
    { maxBytes, deadlines }: RequestBounds,
    listener: RequestListener,
  ) {
    this.#stream = stream
    this.#connection = connection
    this.#deadlines = deadlines
    this.#listener = listener
    this.#assembler = new MessageAssembler(maxBytes, bytes => this.#charge(bytes))
    deadlines.add(this)
  }

  /**
   * Begins to read. Replaces the hook that Node calls with each DATA frame: the buffer behind it costs a tenth of a response, and
   * is useful only while frames wait.
   */
  start(): void {
    const stream = this.#stream
    const { push } = stream
    stream.push = (data: Buffer | null) => {
      if (data === null) return push.call(stream, data)
      if (stream.isPaused()) {
        const goesOn = push.call(stream, ownCopy(data))
        this.#addFragment(data.length)
        this.#adjustCharge()
        return goesOn
      }
      if (stream.readableLength > 0) return push.call(stream, data)
      this.#write(data)
      return true
    }
    stream.on('data', (data: Buffer) => this.#write(data))
    stream.on('end', () => this.#endOfStream())
  }

  /** Hands out no message until `resume`. */
  suspend(): void {
    if (this.#state === 'queued') this.#connection.budget.requests.delete(this)
    if (this.#state !== 'over') this.#state = 'suspended'
  }

  /** A message that was received meanwhile arrives inside this call. Does nothing unless suspended. */
  resume(): void {
    if (this.#state === 'suspended') this.takeTurn()
  }

  takeTurn(): void {
    this.#state = 'reading'
    const rest = this.#rest
    this.#rest = undefined
    if (rest) this.#consume(rest)
    if (this.#is('reading') && this.#stream.isPaused()) resumeReading(this.#stream)
    this.#adjustCharge()
    if (this.#stream.readableEnded) this.#endOfStream()
  }

  onLate(): void {
    // The request has arrived, and waits for the turn of its caller.
    if (this.#state === 'queued') {
      this.#deadlines.add(this)
      return
    }
    const what = this.#assembler.isPartial ? 'a message that began is not whole' : 'no request came'
    this.#listener.refuse(new StreamRefusal('deadline-exceeded', `${what} within ${this.#deadlines.seconds} s`))
  }

  /** Releases everything that is held; no message is handed out afterwards. */
  stop(): void {
    if (this.#state === 'over') return
    this.suspend()
    this.#state = 'over'
    this.#rest = undefined
    if (this.#due) this.#deadlines.delete(this)
    if (this.#due !== 'first') this.#connection.allowance.delete()
    this.#connection.budget.release(this.#charged)
    this.#charged = 0
    // Further frames are dropped: they would be kept, uncharged, until the peer reads the status.
    if (this.#stream.isPaused()) resumeReading(this.#stream)
  }

  #write(data: Buffer): void {
    // No message follows the end of a call: all later bytes count as overhead.
    if (this.#state === 'over') {
      this.#addFragment(data.length)
      return
    }
    this.#connection.messageBytes += data.length
    this.#consume(data)
    this.#adjustCharge()
  }

  #endOfStream(): void {
    if (this.#state === 'reading') this.#listener.onHalfClose()
  }

  #consume(data: Buffer): void {
    try {
      let start = 0
      while (start < data.length && !this.#rest && this.#is('reading') && this.#isAdmitted()) {
        const found = this.#assembler.read(data, start)
        start = found ? found.end : data.length
        if (found) this.#handOut(found.message)
        else this.#addFragment(data.length)
      }
      if (start < data.length && !this.#is('over')) this.#keep(data.subarray(start))
      if (!this.#due && !this.#is('over') && this.#assembler.isPartial) {
        this.#due = 'begun'
        this.#deadlines.add(this)
      }
    } catch (error) {
      this.#listener.refuse(error)
    }
  }

  #isAdmitted(): boolean {
    const { requests, pace } = this.#connection.budget
    if (requests.admits(this, pace)) return true
    this.#state = 'queued'
    return false
  }

  #handOut(message: Buffer): void {
    if (this.#due) this.#deadlines.delete(this)
    if (this.#due === 'first') this.#connection.allowance.add()
    this.#due = undefined
    this.#listener.onMessage(message)
    const { requests, pace } = this.#connection.budget
    requests.count(pace)
  }

  /** The call is paused only when more arrives while it waits for a turn: a pause costs a third of a response. */
  #keep(data: Buffer): void {
    const rest = this.#rest
    if (rest) this.#addFragment(data.length)
    this.#rest = ownCopy(data, rest)
    if (!this.#stream.isPaused() && (rest || !this.#is('queued'))) this.#stream.pause()
  }

  /** A method, since TypeScript would narrow the field across calls that change it. */
  #is(state: State): boolean {
    return this.#state === state
  }

  #addFragment(bytes: number): void {
    this.#connection.budget.account.reads.spendOnFragment(bytes)
  }

  #charge(bytes: number): void {
    this.#connection.budget.chargeOrRefuse(bytes, 'more unread requests')
    this.#charged += bytes
  }

  /** Charges exactly the bytes that are held, or ends the call. */
  #adjustCharge(): void {
    const isPaused = this.#stream.isPaused()
    if (this.#state === 'over' || (this.#charged === 0 && !isPaused && !this.#rest)) return
    const unread = isPaused ? this.#stream.readableLength : 0
    const surplus = this.#charged - unread - (this.#rest?.length ?? 0) - this.#assembler.heldBytes
    try {
      if (surplus < 0) this.#charge(-surplus)
    } catch (error) {
      this.#listener.refuse(error)
      return
    }
    if (surplus <= 0) return
    this.#connection.budget.release(surplus)
    this.#charged -= surplus
  }
}

/** Lets `stream` flow, also after a pause. */
export function resumeReading(stream: Readable): void {
  const isPaused = stream.isPaused()
  stream.resume()
  // Only this reopens the window after a pause in which no frame went through the stream's buffer.
  if (isPaused) stream._read(0)
}
