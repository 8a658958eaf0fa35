/** Admits connections to a socket: reads the caller, looks for room, and decides on its permission. */
import type { Socket } from 'node:net'
import type { Clock, Events, PeerCredentials, ReadPeerCredentials } from '@livery/core'
import { type CallerAccount, type CallerAccounts, callerKey } from '../budget/caller-account.ts'
import { type Bound, CallerBudget, type PerCallerLimits, type SocketRoom } from '../budget/caller-budget.ts'
import type { ClosingQueue } from '../budget/paced-closing.ts'
import type { RefusedConnection, SdsEvent } from '../events/sds-event.ts'
import { descriptorOf } from '../socket/peer-descriptor.ts'
import { AdmittedConnection, type Connection } from './connection.ts'
import { LastPermission, type Permission } from './permission.ts'
import type { AccessPolicy } from './policy.ts'

export interface ConnectionGateOptions {
  readonly path: string
  readonly clock: Clock
  /** Until others are followed. */
  readonly policy: AccessPolicy
  /** The limits of each caller. */
  readonly limits: PerCallerLimits
  readonly room: SocketRoom
  readonly accounts: CallerAccounts
  readonly closings: ClosingQueue
  readonly readPeerCredentials: ReadPeerCredentials | undefined
  nextId(): number
  readonly events: Events<SdsEvent>
  /** Called when an identity on demand found no room in the budget of its caller. */
  onIdentityRefused(): void
  /** Takes over a connection that was let in. */
  admit(socket: Socket): void
  /** Called when the last connection closed. */
  onEmpty(): void
}

export class ConnectionGate {
  readonly #options: ConnectionGateOptions
  readonly #connections = new Map<string, AdmittedConnection>()
  readonly #budgets = new Map<CallerAccount, CallerBudget>()
  #policy: AccessPolicy
  #hasStoppedGranting = false

  constructor(options: ConnectionGateOptions) {
    this.#options = options
    this.#policy = options.policy
  }

  get size(): number {
    return this.#connections.size
  }

  /** Admits a new connection, or destroys it before any of its bytes is read. */
  accept(socket: Socket): void {
    // A peer that leaves at once would otherwise be an uncaught exception.
    socket.on('error', ignore)
    if (this.#hasStoppedGranting) {
      socket.destroy()
      return
    }
    const caller = this.#readCaller(socket)
    const info = { id: this.#options.nextId(), socket: this.#options.path, caller }
    const budget = this.#budgetOf(caller)
    const decision = this.#decide(caller, budget)
    if (typeof decision !== 'string') {
      this.#register(new AdmittedConnection(info, decision, budget, socket, this.#options.closings))
      return
    }
    socket.destroy()
    this.#options.events.emit({ kind: 'connection-refused', connection: info, reason: decision })
  }

  /** The connection of a new call, by what `call.getPeer()` says; `undefined` once it takes none. */
  find(peer: string): Connection | undefined {
    return this.#hasStoppedGranting ? undefined : this.#connections.get(peer)
  }

  connections(): Iterable<Connection> {
    return this.#connections.values()
  }

  /** Decides by these rules from now on, on the connections that are open as well: those not let in are closed. */
  follow(policy: AccessPolicy): void {
    if (this.#hasStoppedGranting) return
    this.#policy = policy
    for (const connection of this.#connections.values()) {
      const permission = policy.admit(connection.info.caller)
      if (permission) connection.permission = permission
      else connection.cut()
    }
  }

  /** From now on no connection and no call is admitted; open streams keep the names granted to them before. */
  stopGranting(): void {
    if (this.#hasStoppedGranting) return
    this.#hasStoppedGranting = true
    if (this.#connections.size === 0) return
    const known = this.#policy.known()
    for (const connection of this.#connections.values())
      connection.permission = new LastPermission(connection.permission, known)
  }

  destroyAll(): void {
    for (const connection of this.#connections.values()) connection.close()
  }

  /** An admitted connection counts from then on. */
  #decide(caller: PeerCredentials | undefined, budget: CallerBudget): Permission | RefusedConnection {
    if (!caller && this.#policy.needsCredentials) return 'unreadable-credentials'
    const permission = this.#policy.admit(caller)
    if (!permission) return 'not-allowed'
    if (budget.isHeld(this.#options.clock.now())) return 'caller-held'
    const bound = budget.openConnection()
    return bound ? REFUSED_BY[bound] : permission
  }

  #budgetOf(caller: PeerCredentials | undefined): CallerBudget {
    const { path, limits, room, accounts, clock, onIdentityRefused, events } = this.#options
    const account = accounts.of(callerKey(caller, path))
    const present = this.#budgets.get(account)
    if (present) return present
    const budget = new CallerBudget(account, {
      limits,
      socket: room,
      accounts,
      clock,
      onIdentityRefused,
      onSlowed: streams => events.emit({ kind: 'caller-slowed', socket: path, caller: account.key, streams }),
      onIdle: () => void this.#budgets.delete(account),
    })
    this.#budgets.set(account, budget)
    return budget
  }

  #register(connection: AdmittedConnection): void {
    const { events, onEmpty, admit } = this.#options
    const { info, socket } = connection
    const peer = `connection ${info.id}`
    // The only thing grpc-js gives a call's handler of its connection is the remote address, which a UNIX socket does not have.
    Object.defineProperty(socket, 'remoteAddress', { value: peer })
    this.#connections.set(peer, connection)
    socket.on('close', () => {
      this.#connections.delete(peer)
      connection.budget.closeConnection()
      events.emit({ kind: 'connection-closed', connection: info })
      if (this.#connections.size === 0) onEmpty()
    })
    events.emit({ kind: 'connection-opened', connection: info })
    admit(socket)
  }

  #readCaller(socket: Socket): PeerCredentials | undefined {
    const descriptor = descriptorOf(socket)
    if (descriptor === undefined) return undefined
    try {
      return this.#options.readPeerCredentials?.(descriptor)
    } catch {
      // The connection has closed already. Where its credentials matter it is refused.
      return undefined
    }
  }
}

const REFUSED_BY: Readonly<Record<Bound, RefusedConnection>> = {
  socket: 'too-many-connections',
  caller: 'too-many-of-caller',
  process: 'too-many-in-process',
}

function ignore(): void {}
