/** Admits connections to a socket: reads the caller, looks for room, and decides on its permission. */
import type { Socket } from 'node:net'
import type { Events, PeerCredentials, ReadPeerCredentials } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { ArrivalQueue } from '../budget/arrival-queue.ts'
import { type CallerAccount, type CallerAccounts, callerKey } from '../budget/caller-account.ts'
import { type Bound, CallerBudget, type PerCallerLimits, type SocketRoom } from '../budget/caller-budget.ts'
import type { ClosingQueue } from '../budget/paced-closing.ts'
import { StreamAllowance } from '../budget/stream-allowance.ts'
import type { ConnectionInfo, RefusedConnection, SdsEvent } from '../events/sds-event.ts'
import type { Arrival } from '../socket/accept-connections.ts'
import type { CallerDirectory, Identification } from './caller-directory.ts'
import { AdmittedConnection, type Connection } from './connection.ts'
import { LastPermission } from './last-permission.ts'
import type { Permission } from './permission.ts'
import type { AccessPolicy } from './policy.ts'
import type { RefusalAnswers } from './refusal-answers.ts'
import { WaitingConnections } from './waiting-connections.ts'

/** The part of its options that all sockets of one server have. */
export interface GateContext {
  readonly clock: Clock
  readonly accounts: CallerAccounts
  readonly arrivals: ArrivalQueue
  readonly closings: ClosingQueue
  readonly readPeerCredentials?: ReadPeerCredentials | undefined
  /** Required by a policy that identifies callers. */
  readonly callerDirectory?: CallerDirectory | undefined
  readonly events: Events<SdsEvent>
  nextId(): number
}

interface ConnectionGateOptions extends GateContext {
  readonly path: string
  /** The rules until `follow` replaces them. */
  readonly policy: AccessPolicy
  /** The limits of each caller. */
  readonly limits: PerCallerLimits
  readonly room: SocketRoom
  /** Absent: refused callers get no answer. */
  readonly answers: RefusalAnswers | undefined
  /** Called when an identity on demand found no room in the budget of its caller. */
  onNoRoom(): void
  /** Serves an admitted connection. */
  admit(connection: AdmittedConnection): void
  /** Called when the last connection closed. */
  onEmpty(): void
}

/** A new connection, for which its budget has room. */
interface Candidate {
  readonly arrival: Arrival
  readonly info: ConnectionInfo
  readonly budget: CallerBudget
}

export class ConnectionGate {
  readonly #options: ConnectionGateOptions
  readonly #connections = new Set<AdmittedConnection>()
  readonly #waiting: WaitingConnections<Candidate & { readonly socket: Socket }>
  readonly #budgets = new Map<CallerAccount, CallerBudget>()
  #policy: AccessPolicy
  #hasStoppedGranting = false
  #hasEnded = false

  constructor(options: ConnectionGateOptions) {
    this.#options = options
    this.#policy = options.policy
    this.#waiting = new WaitingConnections(options.clock, candidate => this.#giveUp(candidate, 'unknown-caller'))
  }

  get size(): number {
    return this.#connections.size
  }

  /** Admits a new connection, in its turn, or closes it, before any of its bytes is interpreted. */
  accept(arrival: Arrival): void {
    if (this.#hasStoppedGranting) {
      arrival.close()
      return
    }
    const { descriptor } = arrival
    const caller = this.#readCaller(descriptor)
    const identified = this.#identify(caller, descriptor)
    const subject = identified && 'subject' in identified ? identified.subject : undefined
    const { path, nextId } = this.#options
    const info = { id: nextId(), socket: path, caller, ...(subject !== undefined && { subject }) }
    if (!caller && this.#policy.needsCredentials) this.#refuse(arrival, info, 'unreadable-credentials')
    else if (identified && 'problem' in identified) this.#refuse(arrival, info, 'unidentified', identified.problem)
    else this.#consider(arrival, info)
  }

  connections(): Iterable<Connection> {
    return this.#connections
  }

  /** Replaces the rules, for open connections too: closes those that are no longer admitted. */
  follow(policy: AccessPolicy): void {
    if (this.#hasStoppedGranting) return
    this.#policy = policy
    for (const connection of this.#connections) this.#decideAgain(connection)
    if (!policy.identifies) for (const subject of this.#waiting.subjects()) this.#endWait(subject)
  }

  /**
   * Decides again about a subject whose facts changed: closes connections that are no longer admitted, and admits
   * connections that waited for the facts. Returns whether any connection of the subject is open.
   */
  recheck(subject: string): boolean {
    if (!this.#policy.identifies) return false
    const present = [...this.#connections].filter(({ info }) => info.subject === subject)
    const isUnknown = this.#isUnknown(subject)
    for (const connection of present) {
      if (isUnknown) connection.cut()
      else if (!this.#hasStoppedGranting) this.#decideAgain(connection)
    }
    if (!isUnknown) this.#endWait(subject)
    return present.length > 0
  }

  /** Stops admitting connections and calls; open streams keep their granted names. */
  stopGranting(): void {
    if (this.#hasStoppedGranting) return
    this.#hasStoppedGranting = true
    this.#waiting.endAll()
    if (this.#connections.size === 0) return
    const known = this.#policy.known()
    for (const connection of this.#connections) {
      connection.takesCalls = false
      connection.permission = new LastPermission(connection.permission, known)
    }
  }

  /** Refuses the connections that wait for their turn or for the facts of their caller. Call it when no more are accepted. */
  endWaits(): void {
    this.#hasEnded = true
    this.#waiting.endAll()
  }

  destroyAll(): void {
    for (const connection of this.#connections) connection.close()
  }

  #identify(caller: PeerCredentials | undefined, descriptor: number | undefined): Identification | undefined {
    const { callerDirectory } = this.#options
    if (!this.#policy.identifies || !callerDirectory || !caller || descriptor === undefined) return undefined
    try {
      return callerDirectory.identifyCaller(caller, descriptor)
    } catch (error) {
      return { problem: error instanceof Error ? error.message : String(error) }
    }
  }

  #consider(arrival: Arrival, info: ConnectionInfo): void {
    const { caller, subject } = info
    const isUnknown = this.#isUnknown(subject)
    const permission = isUnknown ? undefined : this.#permissionOf(info)
    if (!isUnknown && !permission) {
      this.#refuse(arrival, info, 'not-allowed')
      return
    }
    const budget = this.#budgetOf(caller, subject)
    const candidate = { arrival, info, budget }
    const refusal = this.#takeRoom(budget)
    if (refusal) this.#refuse(arrival, info, refusal)
    else if (isUnknown) this.#await(candidate)
    else if (arrival.canWait) this.#options.arrivals.add(budget.account, () => this.#openInTurn(candidate))
    else this.#open(candidate)
  }

  /** Keeps the connection of a subject without facts yet. */
  #await(candidate: Candidate): void {
    const { subject } = candidate.info
    const socket = this.#openSocket(candidate.arrival)
    if (!socket || !subject || !this.#waiting.add(subject, { ...candidate, socket }))
      this.#giveUp(candidate, 'unknown-caller')
  }

  /** Catches every fault, since other connections wait for their turn behind it. */
  #openInTurn(candidate: Candidate): void {
    const { arrival, budget } = candidate
    try {
      if (!this.#hasStoppedGranting && !this.#hasEnded) {
        this.#open(candidate)
        return
      }
      budget.closeConnection()
      arrival.close()
    } catch (error) {
      arrival.close()
      const { events, path } = this.#options
      events.emit({ kind: 'accept-failed', path, error })
    }
  }

  /** Admits a connection by the current rules, which may have changed since it came. */
  #open(candidate: Candidate): void {
    const permission = this.#permissionOf(candidate.info)
    if (!permission) {
      this.#giveUp(candidate, 'not-allowed')
      return
    }
    const socket = this.#openSocket(candidate.arrival)
    if (socket) this.#register(candidate, socket, permission)
    // The arrival has reported why.
    else candidate.budget.closeConnection()
  }

  #openSocket(arrival: Arrival): Socket | undefined {
    // A peer that leaves at once would otherwise be an uncaught exception.
    return arrival.open()?.on('error', ignore)
  }

  /** Whether the caller was identified, but has no facts. */
  #isUnknown(subject: string | undefined): boolean {
    return this.#policy.identifies && (!subject || !this.#options.callerDirectory?.factsOf(subject))
  }

  #permissionOf({ caller, subject }: ConnectionInfo): Permission | undefined {
    const isKnown = this.#policy.identifies && subject !== undefined
    return this.#policy.admit(caller, isKnown ? this.#options.callerDirectory?.factsOf(subject) : undefined)
  }

  #decideAgain(connection: AdmittedConnection): void {
    const permission = this.#permissionOf(connection.info)
    if (permission) connection.permission = permission
    else connection.cut()
  }

  /** Admits the connections that waited for the facts of their subject. */
  #endWait(subject: string): void {
    for (const candidate of this.#waiting.take(subject)) this.#open(candidate)
  }

  #giveUp({ arrival, info, budget }: Candidate, reason: RefusedConnection): void {
    budget.closeConnection()
    this.#refuse(arrival, info, reason)
  }

  #refuse(arrival: Arrival, connection: ConnectionInfo, reason: RefusedConnection, detail?: string): void {
    // The server itself connects to its path, to check that it still listens there.
    const isOwn = connection.caller?.pid === process.pid
    if (isOwn || !NOT_LET_IN.has(reason) || !this.#answer(arrival, connection)) arrival.close()
    if (isOwn) return
    const { events } = this.#options
    events.emit({ kind: 'connection-refused', connection, reason, ...(detail !== undefined && { detail }) })
  }

  /** Whether the caller is answered; the answer then ends the connection. */
  #answer(arrival: Arrival, { caller, subject }: ConnectionInfo): boolean {
    const { answers, accounts, path } = this.#options
    if (this.#hasStoppedGranting || !answers) return false
    return answers.take(() => this.#openSocket(arrival), accounts.of(callerKey(caller, subject, path)))
  }

  /** An admitted connection counts from then on. */
  #takeRoom(budget: CallerBudget): RefusedConnection | undefined {
    if (budget.isHeld(this.#options.clock.now())) return 'caller-held'
    const bound = budget.openConnection()
    return bound && REFUSED_BY[bound]
  }

  #budgetOf(caller: PeerCredentials | undefined, subject: string | undefined): CallerBudget {
    const { path, limits, room, accounts, clock, onNoRoom, events } = this.#options
    const account = accounts.of(callerKey(caller, subject, path))
    const present = this.#budgets.get(account)
    if (present) return present
    const budget = new CallerBudget(account, {
      limits,
      socket: room,
      accounts,
      clock,
      onNoRoom,
      onSlowed: streams => events.emit({ kind: 'caller-slowed', socket: path, caller: account.key, streams }),
      onIdle: () => void this.#budgets.delete(account),
    })
    this.#budgets.set(account, budget)
    return budget
  }

  #register({ info, budget }: Candidate, socket: Socket, permission: Permission): void {
    const { closings, events, room, onEmpty, admit } = this.#options
    const allowance = new StreamAllowance(room.streams.most)
    const connection = new AdmittedConnection(info, permission, budget, socket, closings, allowance)
    const { reads } = budget.account
    this.#connections.add(connection)
    socket.on('close', () => {
      connection.takesCalls = false
      this.#connections.delete(connection)
      reads.delete(connection)
      budget.closeConnection()
      events.emit({ kind: 'connection-closed', connection: info })
      if (this.#connections.size === 0) onEmpty()
    })
    events.emit({ kind: 'connection-opened', connection: info })
    admit(connection)
    reads.add(connection)
  }

  #readCaller(descriptor: number | undefined): PeerCredentials | undefined {
    if (descriptor === undefined) return undefined
    try {
      return this.#options.readPeerCredentials?.(descriptor)
    } catch {
      // The connection has closed already. It is refused if its credentials matter.
      return undefined
    }
  }
}

/** Refusals for the caller's identity, not for its use of resources. */
const NOT_LET_IN: ReadonlySet<RefusedConnection> = new Set(['not-allowed', 'unidentified', 'unknown-caller'])

const REFUSED_BY: Readonly<Record<Bound, RefusedConnection>> = {
  socket: 'too-many-connections',
  caller: 'too-many-of-caller',
  process: 'too-many-in-process',
}

function ignore(): void {}
