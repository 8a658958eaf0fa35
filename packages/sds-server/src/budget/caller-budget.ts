/** Admits one caller's use of one socket under three limits: its own over all sockets, the socket's, the process's. */
import type { FileSecretName } from '@livery/core'
import { formatFileName, isOfSecret } from '@livery/core/file-secrets'
import type { Clock, SpiffeId } from '@livery/core/plugin'
import type { FileSource } from '../protocol/secret-source.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { CallerAccount, CallerAccounts } from './caller-account.ts'
import type { Rate } from './leaky-bucket.ts'
import type { Pace, RequestQueue } from './request-queue.ts'
import type { SharedLimit } from './shared-limit.ts'

/** The limits of each caller, over all sockets together. */
export interface PerCallerLimits {
  /** Connections at once. Default: 10,000. */
  readonly connections: number
  /** Streams and fetches at once. Default: 20,000. */
  readonly streams: number
  /** Names on all streams; one of more than 256 bytes counts for each 256 begun. Default: 50,000. */
  readonly names: number
  /** Identities kept on its demand. Default: 10,000. */
  readonly identities: number
  /** Names of files watched on its demand. Default: 1,000. */
  readonly files: number
  /** Identities issued on demand for it in a minute; all of them may come at once. Default: 1,000. */
  readonly identitiesPerMinute: number
  /**
   * Requests, including ACKs, with a burst of five seconds' worth. A caller above the rate has its streams read more slowly
   * and its fetches and health checks refused. Each stream, fetch and health check costs four requests more when it begins.
   * Default: 10,000.
   */
  readonly requestsPerSecond: number
  /** Memory held for it, charged by `COSTS`. Default: 100,663,296. */
  readonly bytes: number
}

/** The room of one socket, for all callers. */
export interface SocketRoom {
  readonly connections: SharedLimit
  readonly streams: SharedLimit
  readonly healthCalls: SharedLimit
}

/** Connections and streams opened. The burst lets a fleet of 10,000 Envoys reconnect twice in a row. */
const OPENED: Rate = { perSecond: 500, burst: 20_000 }
/** Misuse, such as streams that their peer ends before the first response. Two Envoys of 2,001 streams that die together cause fewer than the burst. */
const FAULTS: Rate = { perSecond: 100, burst: 5_000 }
/** Bytes of HTTP/2 outside of messages: a fleet of 10,000 with two streams each needs 8 MB. */
const OVERHEAD: Rate = { perSecond: 1_048_576, burst: 33_554_432 }
/** Refused names that are reported individually. */
const REFUSALS: Rate = { perSecond: 20, burst: 1_000 }
/** Two or three requests on each stream of a fleet of 10,000 at once. */
const REQUEST_BURST_SECONDS = 5
/** The cost of opening a call, in requests. */
const CALL_REQUESTS = 4
/** How long connections of a caller over a rate are refused, at first and at most. */
const HOLD_MS = 5_000
const MAX_HOLD_MS = 60_000

interface CallerBudgetOptions {
  readonly limits: PerCallerLimits
  readonly socket: SocketRoom
  readonly accounts: CallerAccounts
  readonly clock: Clock
  /** Called when an identity, or a secret that others write, found no room. */
  readonly onNoRoom: () => void
  /** See `Pace`. */
  readonly onSlowed: (streams: number) => void
  /** Called when nothing of this socket is held any more. */
  readonly onIdle: () => void
}

/** Which bound refused a connection or a stream: for metrics, so there are few. */
export type Bound = 'socket' | 'caller' | 'process'
type Opened = 'connections' | 'streams' | 'healthCalls'

/** A call of StreamSecrets, DeltaSecrets or the Workload API, of FetchSecrets, or a health check or watch. */
export type CallKind = 'stream' | 'fetch' | 'health'

/** The bound that refused a call; `rate` is `requestsPerSecond`. */
export type CallBound = Bound | 'rate'

/**
 * Bytes charged for memory that cannot be measured at run time: the buffers of node:http2 and nghttp2. Measured and rounded
 * up: see the README of this package, "What is bounded, and how".
 */
export const COSTS = { connection: 32_768, stream: 8_192, fetch: 32_768, health: 8_192, name: 1_024 } as const

export class CallerBudget {
  readonly account: CallerAccount
  readonly limits: PerCallerLimits
  /** The rate of `requests`. */
  readonly pace: Pace
  readonly #options: CallerBudgetOptions
  /** Its connections and calls on this socket. */
  readonly #open: Record<Opened, number> = { connections: 0, streams: 0, healthCalls: 0 }

  constructor(account: CallerAccount, options: CallerBudgetOptions) {
    this.account = account
    this.limits = options.limits
    this.#options = options
    const { clock, onSlowed } = options
    const perSecond = options.limits.requestsPerSecond
    this.pace = { clock, rate: { perSecond, burst: REQUEST_BURST_SECONDS * perSecond }, onSlowed }
  }

  /** The requests of the caller, over all sockets. */
  get requests(): RequestQueue {
    return this.account.requests
  }

  /** Takes room for one more connection, until `closeConnection`. Returns the bound that has none, or `undefined`. */
  openConnection(): Bound | undefined {
    return this.#take('connections', COSTS.connection)
  }

  closeConnection(): void {
    this.#giveBack('connections', COSTS.connection)
  }

  /** As `openConnection`, for a call. A stream over the rate waits before its first request; other calls are refused. */
  openCall(kind: CallKind): CallBound | undefined {
    const { requests, pace } = this
    if (kind !== 'stream' && !requests.take(CALL_REQUESTS, pace)) return 'rate'
    const bound = this.#take(kind === 'health' ? 'healthCalls' : 'streams', COSTS[kind])
    if (!bound && kind === 'stream') requests.add(CALL_REQUESTS, pace)
    return bound
  }

  closeCall(kind: CallKind): void {
    this.#giveBack(kind === 'health' ? 'healthCalls' : 'streams', COSTS[kind])
  }

  /** Health checks have separate room, on the socket only. */
  #take(what: Opened, cost: number): Bound | undefined {
    const { account, limits } = this
    if (!this.#options.socket[what].hasRoom(this.#open[what])) return 'socket'
    if (what !== 'healthCalls') {
      if (account[what] >= limits[what]) return 'caller'
      if (!this.#options.accounts[what].hasRoom(account[what])) return 'process'
    }
    if (!this.charge(cost)) return 'caller'
    this.#open[what]++
    this.#options.socket[what].take()
    if (what === 'healthCalls') return undefined
    account[what]++
    this.#options.accounts[what].take()
    return undefined
  }

  #giveBack(what: Opened, cost: number): void {
    this.#open[what]--
    this.#options.socket[what].giveBack()
    this.release(cost)
    if (what !== 'healthCalls') {
      this.account[what]--
      this.#options.accounts[what].giveBack()
    }
    const { connections, streams, healthCalls } = this.#open
    if (connections + streams + healthCalls === 0) this.#options.onIdle()
  }

  /** Whether new connections of the caller are closed, because it exceeded a rate recently or opens too many. */
  isHeld(now: number): boolean {
    return this.hasMisused || !this.account.opened.take(now, OPENED)
  }

  /** Whether it exceeded a rate of misuse recently. */
  get hasMisused(): boolean {
    const now = this.#options.clock.now()
    const { heldUntil } = this.account
    return now < heldUntil && heldUntil - now <= MAX_HOLD_MS
  }

  /** Counts misuse. Returns `false` if the caller exceeded the rate; its new connections are closed from now on. */
  addFaults(now: number, amount: number): boolean {
    return this.account.faults.add(now, FAULTS, amount) || this.#hold(now)
  }

  /** Counts bytes outside of messages. Returns what {@link addFaults} returns. */
  addOverhead(now: number, bytes: number): boolean {
    return this.account.overhead.add(now, OVERHEAD, bytes) || this.#hold(now)
  }

  /**
   * Counts an identity that is issued on demand. An identity without room is requested again when its socket reviews its
   * names, once the rate allows more.
   */
  takeIdentity(identity: SpiffeId, isHeld: (identity: SpiffeId) => boolean): 'granted' | 'too-many' | 'too-fast' {
    const { account, limits } = this
    const { identities } = account
    if (identities.size >= limits.identities) {
      for (const each of identities) if (!isHeld(each)) identities.delete(each)
    }
    const burst = limits.identitiesPerMinute
    const isFull = identities.size >= limits.identities
    if (isFull || !account.newIdentities.take(this.#options.clock.now(), { perSecond: burst / 60, burst })) {
      this.#options.onNoRoom()
      return isFull ? 'too-many' : 'too-fast'
    }
    identities.add(identity)
    return 'granted'
  }

  /**
   * Counts a name of a secret that others write. A caller may hold as much of the process's room as remains free
   * (`SharedLimit`). A name without room is requested again when its socket reviews its names.
   */
  takeFiles(secret: FileSecretName, source: FileSource): 'granted' | 'caller' | 'process' {
    const { files, secrets } = this.account.watched
    // Far fewer Secrets of Kubernetes can be watched.
    const own = isOfSecret(secret) ? secrets : files
    const name = formatFileName(secret)
    const room = source.room(secret)
    const isHeld = source.holds(name)
    if (isHeld && own.has(name)) return 'granted'
    if (files.size + secrets.size >= this.limits.files || own.size >= room)
      for (const names of [files, secrets]) for (const each of names) if (!source.holds(each)) names.delete(each)
    const isFull = files.size + secrets.size >= this.limits.files
    if (isFull || (own.size >= room && !isHeld)) {
      this.#options.onNoRoom()
      return isFull ? 'caller' : 'process'
    }
    own.add(name)
    return 'granted'
  }

  /** Whether the next refusal is reported with its name. */
  reportsRefusal(): boolean {
    return this.account.refusals.take(this.#options.clock.now(), REFUSALS)
  }

  /** Charges bytes until `release`. Returns `false` if there is no room for them. */
  charge(bytes: number): boolean {
    const { account, limits } = this
    if (account.bytes + bytes > limits.bytes || !this.#options.accounts.bytes.hasRoom(account.bytes, bytes))
      return false
    account.bytes += bytes
    this.#options.accounts.bytes.take(bytes)
    return true
  }

  /** As `charge`; throws a `StreamRefusal` (RESOURCE_EXHAUSTED) that names `what`. */
  chargeOrRefuse(bytes: number, what: string): void {
    if (!this.charge(bytes)) throw this.#refusal(`no room for ${what}`, 'bytes')
  }

  release(bytes: number): void {
    this.account.bytes -= bytes
    this.#options.accounts.bytes.giveBack(bytes)
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

  #hold(now: number): false {
    const { account } = this
    if (now < account.heldUntil) return false
    const isAgain = now - account.heldUntil < MAX_HOLD_MS
    account.holdMs = isAgain ? Math.min(2 * account.holdMs, MAX_HOLD_MS) : HOLD_MS
    account.heldUntil = now + account.holdMs
    account.reads.stopAll()
    return false
  }

  #refusal(what: string, limit: keyof PerCallerLimits): StreamRefusal {
    const { key } = this.account
    return new StreamRefusal('resource-exhausted', `${what} of this caller (${key}): see limits.perCaller.${limit}`)
  }
}

function unitsOf(length: number): number {
  return 1 + (length >>> 8)
}

/** The text can be in memory twice: in the list of the last request and in the subscription. */
function nameBytes(length: number): number {
  return COSTS.name + 2 * length
}
