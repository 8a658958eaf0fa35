/** One socket of the server: its file, its connections, and the gRPC services behind them. */
import { after } from '@livery/core/plugin'
import { ConnectionGate } from './access/connection-gate.ts'
import { AccessPolicy, type SocketAccess } from './access/policy.ts'
import type { SocketRoom } from './budget/caller-budget.ts'
import { DeadlineQueue } from './budget/deadline-queue.ts'
import { SharedLimit } from './budget/shared-limit.ts'
import { type GivenLimits, readLimits, type SocketLimits } from './budget/socket-limits.ts'
import { DEFAULT_WORKLOAD_API } from './defaults.ts'
import { discoveryMethods, SDS_SERVICE } from './grpc/discovery-service.ts'
import { HealthService } from './grpc/health-service.ts'
import { SessionGuard } from './grpc/session-guard.ts'
import { Sessions } from './grpc/sessions.ts'
import { type ListedStream, SocketCalls } from './grpc/socket-calls.ts'
import type { SdsContext } from './sds-context.ts'
import { AwaitedSocketFile } from './socket/awaited-socket-file.ts'
import type { PlacementOptions } from './socket/placed-socket.ts'
import { LiveOwnerError, SdsServerError } from './socket/sds-server-error.ts'
import type { SocketFileEvent } from './socket/socket-file.ts'
import { WORKLOAD_SERVICE, workloadMethods } from './workload-api/workload-service.ts'

/** The part that can change while the socket is open. */
export interface AccessConfig extends SocketAccess {
  /** A path of at most 107 bytes. */
  readonly path: string
}

export interface SocketConfig extends AccessConfig, PlacementOptions {
  readonly limits?: GivenLimits
  /**
   * Whether the SPIFFE Workload API is served beside SDS, under the same rules and limits. Default: where `identity` is given.
   */
  readonly workloadApi?: boolean | undefined
}

export interface SocketStatus {
  readonly path: string
  /**
   * `waiting`: another process listens on the path, which is tried again every 5 s. `superseded`: another process took
   * the path, and the connections of this server continue.
   */
  readonly state: 'listening' | 'waiting' | 'superseded' | 'closed'
  /** The error, with its remedy, while it is `waiting`. */
  readonly reason?: string
  readonly connections: number
  readonly streams: number
}

/** Health checks have separate room, so that a socket full of streams still answers them, and they never fill it. */
const MAX_HEALTH_CALLS = 2_000
/** The delay before a name without room in its caller's budget is requested again. */
const REVIEW_MS = 1_000
/** How long a connection has to close after its streams were ended. */
const CLOSE_GRACE_MS = 1_000

export class SdsSocket {
  /** The most connections at once. */
  readonly maxConnections: number
  readonly #config: SocketConfig
  readonly #context: SdsContext
  readonly #room: SocketRoom
  readonly #deadlines: DeadlineQueue
  readonly #guard: SessionGuard
  readonly #gate: ConnectionGate
  readonly #calls: SocketCalls
  readonly #health: HealthService
  readonly #sessions: Sessions
  readonly #file: AwaitedSocketFile
  #access: SocketAccess
  #review: Disposable | undefined
  #closing: Promise<void> | undefined
  #onEmpty: () => void = () => {}

  /** Throws an `SdsServerError` (`invalid-config`); nothing is on the disk yet. */
  constructor(config: SocketConfig, context: SdsContext) {
    const limits = readLimits(config.limits, config.path)
    this.maxConnections = limits.connections
    this.#config = config
    this.#access = config
    this.#context = context
    this.#room = roomOf(limits)
    context.accounts.connections.raise(limits.connections)
    context.accounts.streams.raise(limits.streams)
    this.#deadlines = new DeadlineQueue(context.clock, context.requestTimeoutMs)
    const isServed = config.workloadApi ?? DEFAULT_WORKLOAD_API[config.identity ? 'own' : 'shared']
    this.#gate = new ConnectionGate({
      ...context,
      path: config.path,
      policy: createPolicy(config, context),
      limits: limits.perCaller,
      room: this.#room,
      answers: isServed ? context.refusalAnswers : undefined,
      admit: connection => this.#guard.watch(this.#sessions.open(connection.socket), connection),
      onEmpty: () => this.#onEmpty(),
      onNoRoom: () => this.#reviewLater(),
    })
    const bounds = { maxBytes: limits.messageBytes, deadlines: this.#deadlines }
    this.#calls = new SocketCalls(context, this.#room, bounds)
    this.#health = new HealthService(isServed ? [SDS_SERVICE, WORKLOAD_SERVICE] : [SDS_SERVICE], this.#calls)
    const streams = { ...context, maxNames: limits.names }
    this.#sessions = new Sessions(context, limits.streams)
    this.#guard = new SessionGuard({
      clock: context.clock,
      methods: new Map([
        ...discoveryMethods(streams, this.#calls),
        ...(isServed ? workloadMethods(streams, this.#calls) : []),
        ...this.#health.openers,
      ]),
      openings: context.openings,
      deadlines: this.#deadlines,
      connections: () => this.#gate.connections(),
    })
    this.#file = new AwaitedSocketFile({
      ...context,
      ...config,
      onArrival: arrival => this.#gate.accept(arrival),
      onEvent: event => context.events.emit(context.isHandover ? inHandover(event) : event),
    })
  }

  /** See {@link AwaitedSocketFile.listen}. */
  listen(signal: AbortSignal | undefined): Promise<void> {
    return this.#file.listen(signal)
  }

  /** See {@link AwaitedSocketFile.reclaim}. */
  reclaim(): Promise<void> {
    return this.#file.reclaim()
  }

  /** Whether it was closed, or could not listen. */
  get isClosed(): boolean {
    return this.#closing !== undefined || this.#file.state === 'closed'
  }

  /** Its configuration with the current rules. */
  get config(): SocketConfig {
    const { path, mode, owner, group, limits, workloadApi } = this.#config
    return { path, mode, owner, group, workloadApi, ...(limits && { limits }), ...this.#access }
  }

  /** Why it is `waiting`. */
  get failure(): Error | undefined {
    return this.#file.failure
  }

  /** The returned function applies the rules. Throws an `SdsServerError` (`invalid-config`). */
  prepareAccess(access: SocketAccess): () => void {
    const policy = createPolicy({ ...access, path: this.#config.path }, this.#context)
    return () => {
      this.#access = access
      this.#gate.follow(policy)
      this.#calls.review()
    }
  }

  /** Call after the facts about a subject changed. */
  recheck(subject: string): void {
    if (this.#gate.recheck(subject)) this.#calls.review(subject)
  }

  /** Lets streams ask again for names that were refused or unknown. */
  review(): void {
    this.#calls.review()
  }

  /** Plans a review for names without room: a SotW peer asks only once. */
  #reviewLater(): void {
    const { clock } = this.#context
    this.#review ??= after(clock, REVIEW_MS, () => {
      this.#review = undefined
      this.review()
    })
  }

  /** Call it before `close`: streams keep their granted names, and get no others. */
  stopGranting(): void {
    this.#gate.stopGranting()
  }

  status(): SocketStatus {
    const { path } = this.#config
    const used = { connections: this.#gate.size, streams: this.#room.streams.used }
    const { state, failure } = this.#file
    return { path, state, ...(failure && { reason: failure.message }), ...used }
  }

  streams(): Iterable<ListedStream> {
    return this.#calls.streams()
  }

  /**
   * Accepts nothing more, waits up to `drainMs` for the peers to leave, ends what is left with UNAVAILABLE, and destroys
   * connections that are still there a second later. Further calls wait for the first.
   */
  close(drainMs: number): Promise<void> {
    this.#closing ??= this.#close(drainMs)
    return this.#closing
  }

  async #close(drainMs: number): Promise<void> {
    await this.#file.close()
    this.#gate.endWaits()
    this.#health.stopServing()
    this.#sessions.drain()
    await this.#empty(drainMs)
    this.#health[Symbol.dispose]()
    this.#calls.endStreams()
    await this.#empty(CLOSE_GRACE_MS)
    this.#gate.destroyAll()
    await this.#empty(CLOSE_GRACE_MS)
    this.#sessions[Symbol.dispose]()
    this.#deadlines[Symbol.dispose]()
    this.#guard[Symbol.dispose]()
    this.#review?.[Symbol.dispose]()
  }

  /** Resolves when no connection is left, or after `timeoutMs`. */
  async #empty(timeoutMs: number): Promise<void> {
    if (this.#gate.size === 0) return
    const { clock } = this.#context
    const { promise, resolve } = Promise.withResolvers<void>()
    using _timer = after(clock, timeoutMs, resolve)
    this.#onEmpty = resolve
    await promise
  }
}

/** Only a process of root or of this user is a successor. */
function inHandover(event: SocketFileEvent): SocketFileEvent {
  const isSuccessor = event.kind === 'socket-waiting' && event.error instanceof LiveOwnerError && event.error.isTrusted
  return isSuccessor ? { ...event, isHandover: true } : event
}

function createPolicy(config: AccessConfig, context: SdsContext): AccessPolicy {
  const { source, names, readPeerCredentials, callerDirectory } = context
  const policy = new AccessPolicy(config, source, names)
  if (policy.identifies && !callerDirectory)
    throw new SdsServerError(
      'invalid-config',
      `Cannot identify the callers on ${config.path}: no directory of callers was given; leave out identify`,
    )
  if (policy.needsCredentials && !readPeerCredentials)
    throw new SdsServerError('invalid-config', unreadableCallers(config.path))
  return policy
}

/** Why a server without `readPeerCredentials` refuses a socket with `callers` or `identify`. */
export function unreadableCallers(path: string): string {
  return (
    `Cannot use callers on ${path}: reading the credentials of a caller needs the native addon, which is not there; ` +
    'install or build it (npm run native), or leave out callers and give each workload a separate socket, ' +
    'with the owner and mode that let only that workload open it'
  )
}

function roomOf({ connections, streams }: SocketLimits): SocketRoom {
  return {
    connections: new SharedLimit(connections),
    streams: new SharedLimit(streams),
    healthCalls: new SharedLimit(MAX_HEALTH_CALLS),
  }
}
