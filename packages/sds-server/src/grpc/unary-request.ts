/** The one request of a unary call: bounded, held to a deadline, and charged to its caller while it is not whole. */
import type { ServerInterceptingCallInterface } from '@grpc/grpc-js'
import type { Connection } from '../access/connection.ts'
import type { DeadlineQueue, Late } from '../budget/deadline-queue.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { replaceDecoder } from './grpc-js-internals.ts'
import type { IncomingOptions } from './incoming-requests.ts'
import { MessageAssembler } from './message-assembler.ts'

/** Whole messages go to grpc-js' own handler. */
export class UnaryRequest implements Late {
  readonly #deadlines: DeadlineQueue
  readonly #connection: Connection
  readonly #assembler: MessageAssembler
  readonly #onRefusal: (error: unknown) => void
  #isWhole = false
  #charged = 0

  constructor(
    call: ServerInterceptingCallInterface,
    { deadlines, connection, maxBytes, onRefusal }: Omit<IncomingOptions, 'onMessage' | 'onHalfClose'>,
  ) {
    this.#deadlines = deadlines
    this.#connection = connection
    this.#onRefusal = onRefusal
    this.#assembler = new MessageAssembler(maxBytes, bytes => {
      connection.budget.chargeOrRefuse(bytes, 'more unread requests')
      this.#charged += bytes
    })
    replaceDecoder(call, this)
    deadlines.add(this)
  }

  /** Whether the message arrived completely. */
  get isWhole(): boolean {
    return this.#isWhole
  }

  /** If it throws, grpc-js answers with RESOURCE_EXHAUSTED. */
  write(data: Buffer): Buffer[] {
    this.#connection.messageBytes += data.length
    const frames: Buffer[] = []
    for (let start = 0; start < data.length; ) {
      const found = this.#assembler.read(data, start)
      if (!found) break
      start = found.end
      frames.push(uncompressedFrame(found.message))
    }
    if (frames.length > 0) {
      this.#isWhole = true
      this.stop()
    } else {
      this.#connection.budget.account.reads.spendOnFragment(data.length)
    }
    return frames
  }

  onLate(): void {
    this.#onRefusal(new StreamRefusal('deadline-exceeded', `no whole request came within ${this.#deadlines.seconds} s`))
  }

  /** Releases everything that is held. */
  stop(): void {
    this.#deadlines.delete(this)
    this.#connection.budget.release(this.#charged)
    this.#charged = 0
  }
}

function uncompressedFrame(message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}
