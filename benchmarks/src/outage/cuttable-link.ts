/** A TCP connection to the CA that can be cut: it refuses connections, or accepts and never answers. */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { listening, portOf } from '@livery/test-support'

export class CuttableLink implements AsyncDisposable {
  readonly port: number
  readonly #target: number
  readonly #sockets = new Set<Socket>()
  #server: Server
  #isSilent = false

  private constructor(server: Server, port: number, target: number) {
    this.#server = server
    this.port = port
    this.#target = target
  }

  static async open(target: number): Promise<CuttableLink> {
    const server = await listening(createServer())
    const link = new CuttableLink(server, portOf(server), target)
    server.on('connection', socket => link.#onConnection(socket))
    return link
  }

  /** Open connections are lost: `refuse` resets them, `silent` moves nothing on them. */
  async cut(manner: 'refuse' | 'silent'): Promise<void> {
    if (manner === 'silent') {
      this.#isSilent = true
      for (const socket of this.#sockets) socket.unpipe().pause()
      return
    }
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#dropAll()
    await closed
  }

  /** Connections that were open stay lost. */
  async restore(): Promise<void> {
    this.#dropAll()
    if (this.#isSilent) {
      this.#isSilent = false
      return
    }
    const server = createServer(socket => this.#onConnection(socket))
    this.#server = await listening(server, this.port)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    this.#dropAll()
  }

  #onConnection(socket: Socket): void {
    this.#add(socket)
    if (this.#isSilent) return
    const target = connect(this.#target, '127.0.0.1')
    this.#add(target)
    socket.pipe(target).pipe(socket)
    socket.on('close', () => target.destroy())
    target.on('close', () => socket.destroy())
  }

  #add(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket))
  }

  #dropAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}
