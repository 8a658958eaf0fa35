/** The door of a socket: who connects, whether there is room, and what the caller may have. Nothing passes unchecked. */
import type { Socket } from 'node:net'
import type { PeerCredentials, ReadPeerCredentials } from '@livery/core'
import type { AccessPolicy, Permission } from './access.ts'
import { descriptorOf } from './peer-descriptor.ts'
import type { ConnectionInfo, RefusedConnection, SdsEvent } from './sds-event.ts'

/** A connection that was let in. */
export interface Connection {
  readonly info: ConnectionInfo
  readonly permission: Permission
}

export interface ConnectionGateOptions {
  readonly path: string
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
  readonly #connections = new Map<string, Connection & { readonly socket: Socket }>()

  constructor(options: ConnectionGateOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#connections.size
  }

  /** Lets a fresh connection in, or destroys it before any byte of it was read. */
  accept(socket: Socket): void {
    // A peer that leaves at once would otherwise be an uncaught exception.
    socket.on('error', ignore)
    const info = { id: this.#options.nextId(), socket: this.#options.path, caller: this.#readCaller(socket) }
    const decision = this.#decide(info.caller)
    if (typeof decision !== 'string') {
      this.#register({ info, permission: decision, socket })
      return
    }
    socket.destroy()
    this.#options.observe({ kind: 'connection-refused', connection: info, reason: decision })
  }

  /** The connection of a call, by what `call.getPeer()` says; `undefined` once it is closed. */
  find(peer: string): Connection | undefined {
    return this.#connections.get(peer)
  }

  destroyAll(): void {
    for (const { socket } of this.#connections.values()) socket.destroy()
  }

  #decide(caller: PeerCredentials | undefined): Permission | RefusedConnection {
    const { policy, maxConnections } = this.#options
    if (this.#connections.size >= maxConnections) return 'too-many-connections'
    if (!caller && policy.needsCredentials) return 'unreadable-credentials'
    return policy.admit(caller) ?? 'not-allowed'
  }

  #register(connection: Connection & { readonly socket: Socket }): void {
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

function ignore(): void {}
