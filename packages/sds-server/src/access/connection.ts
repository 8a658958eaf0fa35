/** An admitted connection: its caller, its permission, and its end. */
import type { Socket } from 'node:net'
import type { CallerBudget } from '../budget/caller-budget.ts'
import type { ReadSource } from '../budget/caller-reads.ts'
import { type ClosingQueue, PacedClosing } from '../budget/paced-closing.ts'
import type { StreamAllowance } from '../budget/stream-allowance.ts'
import { UnsentMemory } from '../budget/unsent-memory.ts'
import type { ConnectionInfo } from '../events/sds-event.ts'
import type { SecretView } from '../protocol/secret-source.ts'
import { startReading, stopReading } from '../socket/socket-reading.ts'
import type { Permission } from './permission.ts'

export class AdmittedConnection implements ReadSource {
  readonly info: ConnectionInfo
  readonly socket: Socket
  /** The account of its caller, and the limits on it. */
  readonly budget: CallerBudget
  /** Closes its streams in slices before itself. */
  readonly closing: PacedClosing
  /** The memory of responses that were written in part. */
  readonly unsent: UnsentMemory
  /** Knows the streams on which a request has come. */
  readonly allowance: StreamAllowance
  /** Replaced when the rules of its socket change. */
  permission: SecretView
  /** Whether a new call is served. */
  takesCalls = true
  /** Bytes of messages that were read from it. */
  messageBytes = 0
  #overhead = 0

  constructor(
    info: ConnectionInfo,
    permission: Permission,
    budget: CallerBudget,
    socket: Socket,
    closings: ClosingQueue,
    allowance: StreamAllowance,
  ) {
    this.info = info
    this.permission = permission
    this.budget = budget
    this.socket = socket
    this.closing = new PacedClosing(socket, closings)
    this.unsent = new UnsentMemory(socket, budget)
    this.allowance = allowance
  }

  /** Bytes read since the last call that were not in messages. */
  takeOverhead(): number {
    const overhead = this.socket.bytesRead - this.messageBytes
    const added = overhead - this.#overhead
    this.#overhead = overhead
    return added
  }

  /** Closes it soon, after its streams; bytes that were not sent yet are lost. */
  close(): void {
    this.socket.destroy()
  }

  stopReading(): void {
    stopReading(this.socket)
  }

  /** A connection without a request yet is closed instead once its caller is cut off: it would continue the flood. */
  startReading(): void {
    if (this.budget.hasMisused && !this.allowance.isProven) this.close()
    else startReading(this.socket)
  }

  /** Closes it now, so that nothing more is sent: its caller lost a permission. */
  cut(): void {
    this.socket.destroy()
    this.closing.endNow()
  }
}

/** The part that its calls use. */
export type Connection = Omit<AdmittedConnection, 'socket' | keyof ReadSource>
