/** The door of a socket: who connects, whether there is room, and what the caller may have. Nothing passes unchecked. */
import type { Socket } from 'node:net'
import type { PeerCredentials, ReadPeerCredentials } from '@livery/core'
import { type AccessPolicy, LastPermission, type Permission } from './access.ts'
import { descriptorOf } from './peer-descriptor.ts'
import type { ConnectionInfo, RefusedConnection, SdsEvent } from './sds-event.ts'
import type { SecretView } from './subscriptions.ts'

/** A connection that was let in. */
export interface Connection {
  readonly info: ConnectionInfo
  /** As it is now: the rules of its socket may change. */
  readonly permission: SecretView
  /** At once, with what is on its way. */
  close(): void
}

export interface ConnectionGateOptions {
  readonly path: string
  /** Until others are followed. */
  readonly policy: AccessPolicy
  readonly maxConnections: number
  readonly readPeerCredentials: ReadPeerCredentials | undefined
  nextId(): number
  observe(event: SdsEvent): void
  /** Takes over a connection that was let in. */
  admit(socket: Socket): void
  /** Called when the last connection closed. */
  onEmpty(): void
}

export class ConnectionGate {
  readonly #options: ConnectionGateOptions
  readonly #connections = new Map<string, AdmittedConnection>()
  #policy: AccessPolicy
  #grantsNoMore = false

  constructor(options: ConnectionGateOptions) {
    this.#options = options
    this.#policy = options.policy
  }

  get size(): number {
    return this.#connections.size
  }

  /** Lets a fresh connection in, or destroys it before any byte of it was read. */
  accept(socket: Socket): void {
    // A peer that leaves at once would otherwise be an uncaught exception.
    socket.on('error', ignore)
    if (this.#grantsNoMore) {
      socket.destroy()
      return
    }
    const info = { id: this.#options.nextId(), socket: this.#options.path, caller: this.#readCaller(socket) }
    const decision = this.#decide(info.caller)
    if (typeof decision !== 'string') {
      this.#register(new AdmittedConnection(info, decision, socket))
      return
    }
    socket.destroy()
    this.#options.observe({ kind: 'connection-refused', connection: info, reason: decision })
  }

  /** The connection of a new call, by what `call.getPeer()` says; `undefined` once it takes none. */
  find(peer: string): Connection | undefined {
    return this.#grantsNoMore ? undefined : this.#connections.get(peer)
  }

  /** Decides by these rules from now on, on the connections that are open as well: those not let in are closed. */
  follow(policy: AccessPolicy): void {
    if (this.#grantsNoMore) return
    this.#policy = policy
    for (const connection of this.#connections.values()) {
      const permission = policy.admit(connection.info.caller)
      if (permission) connection.permission = permission
      else connection.close()
    }
  }

  /** From now on nobody is let in, no call begins, and streams that go on have what was granted to them before. */
  grantNoMore(): void {
    if (this.#grantsNoMore) return
    this.#grantsNoMore = true
    if (this.#connections.size === 0) return
    const known = this.#policy.known()
    for (const connection of this.#connections.values())
      connection.permission = new LastPermission(connection.permission, known)
  }

  destroyAll(): void {
    for (const connection of this.#connections.values()) connection.close()
  }

  #decide(caller: PeerCredentials | undefined): Permission | RefusedConnection {
    if (this.#connections.size >= this.#options.maxConnections) return 'too-many-connections'
    if (!caller && this.#policy.needsCredentials) return 'unreadable-credentials'
    return this.#policy.admit(caller) ?? 'not-allowed'
  }

  #register(connection: AdmittedConnection): void {
    const { observe, onEmpty, admit } = this.#options
    const { info, socket } = connection
    const peer = `connection ${info.id}`
    // grpc-js tells a call's handler of its connection only the remote address, which a UNIX socket does not have.
    Object.defineProperty(socket, 'remoteAddress', { value: peer })
    this.#connections.set(peer, connection)
    socket.on('close', () => {
      this.#connections.delete(peer)
      observe({ kind: 'connection-closed', connection: info })
      if (this.#connections.size === 0) onEmpty()
    })
    observe({ kind: 'connection-opened', connection: info })
    admit(socket)
  }

  #readCaller(socket: Socket): PeerCredentials | undefined {
    const descriptor = descriptorOf(socket)
    if (descriptor === undefined) return undefined
    try {
      return this.#options.readPeerCredentials?.(descriptor)
    } catch {
      // A connection that is gone already; where its credentials matter it is refused.
      return undefined
    }
  }
}

class AdmittedConnection implements Connection {
  readonly info: ConnectionInfo
  readonly socket: Socket
  permission: SecretView

  constructor(info: ConnectionInfo, permission: Permission, socket: Socket) {
    this.info = info
    this.permission = permission
    this.socket = socket
  }

  close(): void {
    this.socket.destroy()
  }
}

function ignore(): void {}
