/** The requests of one stream: read one at a time, held to a deadline, and charged to their caller while they wait. */
import type { ServerHttp2Stream } from 'node:http2'
import type { Connection } from '../access/connection.ts'
import type { DeadlineQueue, Late } from '../budget/deadline-queue.ts'
import type { RequestReader } from '../budget/request-queue.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { MessageAssembler } from './message-assembler.ts'
import type { DataSink } from './stream-transport.ts'

export interface IncomingOptions {
  readonly maxBytes: number
  readonly connection: Connection
  /** The deadline of a first message, and of a message that began. */
  readonly deadlines: DeadlineQueue
  /** Receives one message, which can be a view of a reused buffer. */
  onMessage(message: Buffer): void
  /** The peer has ended its side, and every message before that was handed out. */
  onHalfClose(): void
  /** Ends the call: with a `StreamRefusal`, or for a bug. */
  onRefusal(error: unknown): void
}

/** A slice holds the whole buffer that it was cut from, so one that is a small part of it is copied. */
const COPY_BELOW = 0.5

/**
 * Takes every DATA frame of the stream, and hands out one message each time that `startRead` asks for it and its caller's
 * turn has come. The decoder of grpc-js bounds one message, but not the sum of what many streams keep.
 * Until then the stream is paused. The peer can fill its window (64 KiB) meanwhile, which is charged, too.
 */
export class IncomingRequests implements DataSink, Late, RequestReader {
  readonly #options: IncomingOptions
  readonly #stream: ServerHttp2Stream | undefined
  readonly #assembler: MessageAssembler
  #isEnded = false
  #isWanted = false
  #isReading = false
  #isOver = false
  #isPaused = false
  /** That of the stream, which is replaced while it is paused. */
  #push: ServerHttp2Stream['push'] | undefined
  #hasDeadline = true
  #hasAsked = false
  /** Whether it waits for the turn of its caller. */
  #isQueued = false
  /** Bytes that were read and not handed out yet. */
  #rest: Buffer | undefined
  #charged = 0

  /** Without its stream a call is never paused. */
  constructor(stream: ServerHttp2Stream | undefined, options: IncomingOptions) {
    this.#options = options
    this.#stream = stream
    this.#assembler = new MessageAssembler(options.maxBytes, bytes => this.#chargeMore(bytes))
    options.deadlines.add(this)
  }

  /** Asks for the next message; one that was received before arrives inside this call. */
  startRead(): void {
    this.#isWanted = true
    if (this.#isReading || this.#isQueued || this.#isOver) return
    this.#goOn()
  }

  takeTurn(): void {
    this.#isQueued = false
    this.#goOn()
  }

  #goOn(): void {
    const rest = this.#rest
    this.#rest = undefined
    if (rest) this.#consume(rest)
    if (this.#isWanted && this.#isPaused && !this.#isQueued) this.#resume()
    this.#adjustCharge()
    if (this.#isEnded) this.endOfStream()
  }

  endOfStream(): void {
    this.#isEnded = true
    if (!this.#rest && this.#isWanted && !this.#isOver) this.#options.onHalfClose()
  }

  write(data: Buffer): void {
    // Behind the end of a call there is no message: all that comes counts as overhead.
    if (this.#isOver) {
      this.#addFragment(data.length)
      return
    }
    this.#options.connection.messageBytes += data.length
    if (this.#rest) this.#append(this.#rest, data)
    else this.#consume(data)
    this.#adjustCharge()
  }

  onLate(): void {
    // The request has arrived, and waits for the turn of its caller.
    if (this.#isQueued) {
      this.#options.deadlines.add(this)
      return
    }
    this.#hasDeadline = false
    const what = this.#assembler.isPartial ? 'a message that began is not whole' : 'no request came'
    this.#refuse(new StreamRefusal('deadline-exceeded', `${what} within ${this.#options.deadlines.seconds} s`))
  }

  /** Releases everything that is held; no message is handed out afterwards. */
  stop(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#rest = undefined
    if (this.#isQueued) this.#options.connection.budget.requests.delete(this)
    if (this.#hasDeadline) this.#options.deadlines.delete(this)
    if (this.#hasAsked) this.#options.connection.allowance.delete()
    this.#options.connection.budget.release(this.#charged)
    this.#charged = 0
    // What its peer still sends is dropped: it would be held, and charged to nobody, until the status is read.
    if (this.#isPaused) this.#resume()
  }

  #consume(data: Buffer): void {
    this.#isReading = true
    try {
      let start = 0
      while (start < data.length && this.#isWanted && !this.#isOver && this.#isAdmitted()) {
        const found = this.#assembler.read(data, start)
        start = found ? found.end : data.length
        if (found) this.#handOut(found.message)
        else this.#addFragment(data.length)
      }
      if (start < data.length && !this.#isOver) this.#hold(data.subarray(start))
      this.#watchPartial()
    } catch (error) {
      this.#refuse(error)
    } finally {
      this.#isReading = false
    }
  }

  #isAdmitted(): boolean {
    const { requests, pace } = this.#options.connection.budget
    this.#isQueued = !requests.admits(this, pace)
    return !this.#isQueued
  }

  #handOut(message: Buffer): void {
    if (this.#hasDeadline) {
      this.#hasDeadline = false
      this.#options.deadlines.delete(this)
    }
    this.#isWanted = false
    if (!this.#hasAsked) {
      this.#hasAsked = true
      this.#options.connection.allowance.add()
    }
    this.#options.onMessage(message)
    const { requests, pace } = this.#options.connection.budget
    requests.count(pace)
  }

  /** While it waits for a turn the stream is paused only when more of it arrives: a pause costs a third of a response. */
  #hold(rest: Buffer): void {
    this.#chargeMore(rest.length)
    this.#rest = Buffer.from(rest)
    if (!this.#isPaused && !this.#isQueued) this.#pause()
  }

  #append(rest: Buffer, data: Buffer): void {
    this.#addFragment(data.length)
    try {
      this.#chargeMore(data.length)
    } catch (error) {
      this.#refuse(error)
      return
    }
    this.#rest = Buffer.concat([rest, data])
    if (!this.#isPaused) this.#pause()
  }

  #watchPartial(): void {
    if (this.#hasDeadline || this.#isOver || !this.#assembler.isPartial) return
    this.#hasDeadline = true
    this.#options.deadlines.add(this)
  }

  #addFragment(bytes: number): void {
    this.#options.connection.budget.account.reads.spendOnFragment(bytes)
  }

  #pause(): void {
    const stream = this.#stream
    if (!stream) return
    this.#isPaused = true
    this.#push = stream.push
    stream.pause()
    stream.push = (chunk: Buffer | null) => {
      if (chunk) this.#addFragment(chunk.length)
      const goesOn = Object.getPrototypeOf(stream).push.call(stream, chunk && ownCopy(chunk))
      this.#adjustCharge()
      return goesOn
    }
  }

  #resume(): void {
    this.#unguard()
    this.#stream?.resume()
    // A pause closes the window, and only this opens it again where no frame went through the buffer of the stream.
    this.#stream?._read(0)
  }

  #unguard(): void {
    this.#isPaused = false
    if (this.#stream && this.#push) this.#stream.push = this.#push
  }

  #chargeMore(bytes: number): void {
    this.#options.connection.budget.chargeOrRefuse(bytes, 'more unread requests')
    this.#charged += bytes
  }

  /** Charges exactly the bytes that are held, or ends the call. */
  #adjustCharge(): void {
    if (this.#isOver || (this.#charged === 0 && !this.#isPaused)) return
    const unread = this.#isPaused ? (this.#stream?.readableLength ?? 0) : 0
    const surplus = this.#charged - unread - (this.#rest?.length ?? 0) - this.#assembler.heldBytes
    try {
      if (surplus < 0) this.#chargeMore(-surplus)
    } catch (error) {
      this.#refuse(error)
      return
    }
    if (surplus <= 0) return
    this.#options.connection.budget.release(surplus)
    this.#charged -= surplus
  }

  #refuse(error: unknown): void {
    this.stop()
    this.#options.onRefusal(error)
  }
}

function ownCopy(chunk: Buffer): Buffer {
  return chunk.length < COPY_BELOW * chunk.buffer.byteLength ? Buffer.from(chunk) : chunk
}
