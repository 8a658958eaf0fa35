/** A TCP proxy on loopback whose connections can be cut or stalled: what a load balancer, a restart or a firewall does. */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { listening, portOf } from '@livery/test-support'

export class CuttableProxy implements AsyncDisposable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #waiting = new Set<() => void>()
  #connections = 0
  #refusedPort = 0

  private constructor(port: number) {
    this.#server = createServer(socket => {
      const upstream = connect(port, '127.0.0.1')
      for (const [one, other] of [[socket, upstream] as const, [upstream, socket] as const]) {
        this.#sockets.add(one)
        one
          .on('error', () => {})
          .on('close', () => {
            this.#sockets.delete(one)
            other.destroy()
          })
      }
      socket.pipe(upstream).pipe(socket)
      this.#connections++
      for (const wake of this.#waiting) wake()
    })
  }

  static async start(port: number): Promise<CuttableProxy> {
    const proxy = new CuttableProxy(port)
    await listening(proxy.#server)
    return proxy
  }

  get port(): number {
    return portOf(this.#server)
  }

  /** Resolves once there have been so many connections. */
  async connected(count: number): Promise<void> {
    while (this.#connections < count) await new Promise<void>(resolve => this.#waiting.add(resolve))
  }

  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  /** Present connections stay open but carry nothing more, in either direction: a firewall that forgot, a node that died. */
  stall(): void {
    for (const socket of this.#sockets) socket.unpipe().pause()
  }

  /** Until `accept` new connections are refused; present ones are cut. */
  async refuse(): Promise<void> {
    const { port } = this
    await this[Symbol.asyncDispose]()
    this.#refusedPort = port
  }

  async accept(): Promise<void> {
    await listening(this.#server, this.#refusedPort)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    this.cut()
    await closed
  }
}
