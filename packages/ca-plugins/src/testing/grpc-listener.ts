/** The real socket of a test's gRPC server, whose connections can be counted and cut. */
import { once } from 'node:events'
import { createServer, type ListenOptions, type Server as NetServer, type Socket } from 'node:net'
import type { Server, ServerCredentials } from '@grpc/grpc-js'

/** Closing it ends the gRPC server as well. */
export class GrpcListener implements AsyncDisposable {
  /** How many connections there have been. */
  connections = 0
  readonly #grpc: Server
  readonly #net: NetServer
  readonly #sockets = new Set<Socket>()

  private constructor(grpc: Server, credentials: ServerCredentials) {
    const injector = grpc.createConnectionInjector(credentials)
    this.#grpc = grpc
    this.#net = createServer(socket => {
      this.connections++
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
      injector.injectConnection(socket)
    })
  }

  /** Port 0 is a free one. */
  static listen(grpc: Server, credentials: ServerCredentials, host: string, port: number): Promise<GrpcListener> {
    return new GrpcListener(grpc, credentials).#listen({ host, port })
  }

  /** Listens on a UNIX socket. */
  static listenAt(grpc: Server, credentials: ServerCredentials, path: string): Promise<GrpcListener> {
    return new GrpcListener(grpc, credentials).#listen({ path })
  }

  async #listen(place: ListenOptions): Promise<this> {
    await new Promise<void>((resolve, reject) => this.#net.once('error', reject).listen(place, resolve))
    return this
  }

  get port(): number {
    const bound = this.#net.address()
    return typeof bound === 'object' && bound ? bound.port : 0
  }

  /** Resolves once no client is connected. */
  async disconnected(): Promise<void> {
    for (const socket of this.#sockets) await once(socket, 'close')
  }

  /** Cuts every connection; on TCP with a reset. */
  reset(): void {
    for (const socket of this.#sockets) {
      if (this.port === 0) socket.destroy()
      else socket.resetAndDestroy()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>(resolve => this.#net.close(() => resolve()))
    this.#grpc.forceShutdown()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }
}
