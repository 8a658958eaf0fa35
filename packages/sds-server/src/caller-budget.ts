/** What one caller may hold of one socket, under its own limits on all sockets, those of the socket and those of the process. */
import type { CallerAccount, CallerAccounts } from './caller-account.ts'
import type { SharedLimit } from './shared-limit.ts'
import { StreamRefusal } from './stream-refusal.ts'

/** Of each caller, on all sockets together: a socket lets a caller in for more while it holds less than this. */
export interface PerCallerLimits {
  /** Connections at once. Default: 10,000. */
  readonly connections: number
  /** Streams and fetches at once. Default: 20,000. */
  readonly streams: number
  /** Names on all streams; one of more than 256 bytes counts for each 256 begun. Default: 50,000. */
  readonly names: number
  /** Memory of all that is held for it, as `COSTS` has it. Default: 536,870,912. */
  readonly bytes: number
}

/** The room of one socket, for all callers. */
export interface SocketRoom {
  readonly connections: SharedLimit
  readonly streams: SharedLimit
  readonly healthCalls: SharedLimit
}

export interface CallerBudgetOptions {
  readonly limits: PerCallerLimits
  readonly socket: SocketRoom
  readonly accounts: CallerAccounts
  /** Called when nothing of this socket is held any more. */
  readonly onIdle: () => void
}

/** Which bound refused a connection or a stream: for metrics, so there are few. */
export type Bound = 'socket' | 'caller' | 'process'

/**
 * Bytes that are charged for what cannot be weighed: the buffers of grpc-js, node:http2 and nghttp2. Measured, rounded up:
 * README.md, "What is bounded, and how".
 */
export const COSTS = { connection: 32_768, stream: 8_192, name: 1_024 } as const

export class CallerBudget {
  readonly account: CallerAccount
  readonly limits: PerCallerLimits
  readonly #socket: SocketRoom
  readonly #process: CallerAccounts
  #connections = 0
  #streams = 0
  #healthCalls = 0

  readonly #onIdle: () => void

  constructor(account: CallerAccount, options: CallerBudgetOptions) {
    this.account = account
    this.limits = options.limits
    this.#socket = options.socket
    this.#process = options.accounts
    this.#onIdle = options.onIdle
  }

  /** Which bound has no room for one more connection; `undefined` if it was taken, and is to be given back. */
  openConnection(): Bound | undefined {
    const { account, limits } = this
    if (!this.#socket.connections.hasRoom(this.#connections)) return 'socket'
    if (account.connections >= limits.connections) return 'caller'
    if (!this.#process.connections.hasRoom(account.connections)) return 'process'
    if (!this.charge(COSTS.connection)) return 'caller'
    this.#connections++
    this.#socket.connections.take()
    account.connections++
    this.#process.connections.take()
    return undefined
  }

  closeConnection(): void {
    this.#connections--
    this.#socket.connections.giveBack()
    this.account.connections--
    this.#process.connections.giveBack()
    this.release(COSTS.connection)
    this.#checkIdle()
  }

  /** As `openConnection`, for a call of any of the three methods. */
  openStream(): Bound | undefined {
    const { account, limits } = this
    if (!this.#socket.streams.hasRoom(this.#streams)) return 'socket'
    if (account.streams >= limits.streams) return 'caller'
    if (!this.#process.streams.hasRoom(account.streams)) return 'process'
    if (!this.charge(COSTS.stream)) return 'caller'
    this.#streams++
    this.#socket.streams.take()
    account.streams++
    this.#process.streams.take()
    return undefined
  }

  closeStream(): void {
    this.#streams--
    this.#socket.streams.giveBack()
    this.account.streams--
    this.#process.streams.giveBack()
    this.release(COSTS.stream)
    this.#checkIdle()
  }

  /** As `openConnection`, for a health check or watch: those have room of their own. */
  openHealthCall(): Bound | undefined {
    if (!this.#socket.healthCalls.hasRoom(this.#healthCalls)) return 'socket'
    if (!this.charge(COSTS.stream)) return 'caller'
    this.#healthCalls++
    this.#socket.healthCalls.take()
    return undefined
  }

  closeHealthCall(): void {
    this.#healthCalls--
    this.#socket.healthCalls.giveBack()
    this.release(COSTS.stream)
    this.#checkIdle()
  }

  /** Counts bytes that are held from now on; `false` if there is no room for them. */
  charge(bytes: number): boolean {
    const { account, limits } = this
    if (account.bytes + bytes > limits.bytes || !this.#process.bytes.hasRoom(account.bytes, bytes)) return false
    account.bytes += bytes
    this.#process.bytes.take(bytes)
    return true
  }

  /** As `charge`; throws a `StreamRefusal` (RESOURCE_EXHAUSTED) that names `what`. */
  chargeOrRefuse(bytes: number, what: string): void {
    if (!this.charge(bytes)) throw this.#refusal(`no room for ${what}`, 'bytes')
  }

  release(bytes: number): void {
    this.account.bytes -= bytes
    this.#process.bytes.giveBack(bytes)
  }

  /** Counts a name that is kept, granted or not; throws a `StreamRefusal` (RESOURCE_EXHAUSTED). */
  addName(length: number): void {
    const units = unitsOf(length)
    if (this.account.names + units > this.limits.names) throw this.#refusal('no room for more names', 'names')
    this.chargeOrRefuse(nameBytes(length), 'more names')
    this.account.names += units
  }

  removeName(length: number): void {
    this.account.names -= unitsOf(length)
    this.release(nameBytes(length))
  }

  #checkIdle(): void {
    if (this.#connections + this.#streams + this.#healthCalls === 0) this.#onIdle()
  }

  #refusal(what: string, limit: keyof PerCallerLimits): StreamRefusal {
    const { key } = this.account
    return new StreamRefusal('resource-exhausted', `${what} of this caller (${key}): see limits.perCaller.${limit}`)
  }
}

function unitsOf(length: number): number {
  return 1 + (length >>> 8)
}

/** The text may be kept twice, in the list of the last request and in the subscription. */
function nameBytes(length: number): number {
  return COSTS.name + 2 * length
}
