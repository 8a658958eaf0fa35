/** A call with one request: bounded, held to a deadline, and charged to its caller until the peer has ended its side. */
import type { Connection } from '../access/connection.ts'
import type { Late } from '../budget/deadline-queue.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { CallHost } from './call-context.ts'
import { OK, statusOf } from './grpc-status.ts'
import type { CallListener, Http2Call } from './http2-call.ts'
import { MessageAssembler, ownCopy } from './message-assembler.ts'

/** One method whose calls have one request. */
export interface UnaryMethod {
  readonly kind: 'fetch' | 'health'
  /** Called once, with the request. May throw a `StreamRefusal`. */
  answer(request: Buffer, call: UnaryCall): void
}

/** In place of a request that was handed out: a watch is open for hours, and charged for it no longer. */
const TAKEN = Buffer.alloc(0)

export class UnaryCall implements CallListener, Late {
  /** Called once when the call has ended, in any way. */
  onEnded: () => void = () => {}
  readonly connection: Connection
  readonly #call: Http2Call
  readonly #method: UnaryMethod
  readonly #host: CallHost
  readonly #assembler: MessageAssembler
  #request: Buffer | undefined
  #state: 'requested' | 'answering' | 'over' = 'requested'
  #charged = 0

  constructor(call: Http2Call, connection: Connection, method: UnaryMethod, host: CallHost) {
    this.#call = call
    this.connection = connection
    this.#method = method
    this.#host = host
    this.#assembler = new MessageAssembler(host.maxBytes, bytes => this.#charge(bytes))
    host.deadlines.add(this)
  }

  start(): void {
    const { incoming } = this.#call
    this.#call.start(this)
    incoming.on('data', (data: Buffer) => this.#write(data))
    incoming.on('end', () => this.#answer())
  }

  /** Sends an acquired frame. */
  send(frame: ResponseFrame, onWritten: () => void): void {
    this.#call.sendFrame(frame, this.connection.unsent, onWritten)
  }

  /** Ends the call, behind what was sent. */
  finish(): void {
    this.#stop()
    this.#call.sendStatus(OK)
  }

  /** Ends the call with a status: of a `StreamRefusal`, or for a bug. */
  refuse(error: unknown): void {
    this.#stop()
    this.#call.sendStatus(statusOf(error))
  }

  #write(data: Buffer): void {
    const { messageBytes, budget } = this.connection
    // No message follows the end of a call: all later bytes count as overhead.
    if (this.#state === 'over') {
      budget.account.reads.spendOnFragment(data.length)
      return
    }
    this.connection.messageBytes = messageBytes + data.length
    try {
      let start = 0
      for (let found = this.#assembler.read(data, 0); found; found = this.#assembler.read(data, start)) {
        start = found.end
        this.#take(found.message)
        if (start === data.length) return
      }
      budget.account.reads.spendOnFragment(data.length)
    } catch (error) {
      this.refuse(error)
    }
  }

  #answer(): void {
    if (this.#state !== 'requested') return
    const request = this.#request
    if (!request) {
      this.refuse(new StreamRefusal('unimplemented', 'the call has no request'))
      return
    }
    this.#stop('answering')
    this.#request = TAKEN
    try {
      this.#method.answer(request, this)
    } catch (error) {
      this.refuse(error)
    }
  }

  onLate(): void {
    const { seconds } = this.#host.deadlines
    this.refuse(new StreamRefusal('deadline-exceeded', `no whole request came within ${seconds} s`))
  }

  onEnd(): void {
    if (!this.#request) this.#host.fault(this.connection)
    this.#stop()
    this.onEnded()
  }

  onGone(): void {
    this.connection.budget.closeCall(this.#method.kind)
  }

  #take(message: Buffer): void {
    if (this.#request) throw new StreamRefusal('unimplemented', 'a second request: this method takes one')
    this.#charge(message.length)
    this.#request = ownCopy(message)
  }

  #charge(bytes: number): void {
    this.connection.budget.chargeOrRefuse(bytes, 'more unread requests')
    this.#charged += bytes
  }

  #stop(state: 'answering' | 'over' = 'over'): void {
    this.#state = state
    this.#host.deadlines.delete(this)
    this.connection.budget.release(this.#charged)
    this.#charged = 0
  }
}
