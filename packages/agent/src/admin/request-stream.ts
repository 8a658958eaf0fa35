/** The stream that Node's HTTP parser gets in place of a socket: the head of one request, and a way to answer it. */
import { Duplex } from 'node:stream'
import type { AdminConnection } from './connections.ts'

/**
 * One request and nothing behind it. Given the socket, the parser would read a thousand pipelined requests out of one
 * segment in one turn of the event loop (200 ms of work); no route takes a body, so the head is all there is to read.
 */
export class RequestStream extends Duplex {
  readonly connection: AdminConnection

  constructor(connection: AdminConnection, head: Buffer) {
    super()
    this.connection = connection
    connection.socket.on('close', () => this.destroy())
    this.push(head)
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.connection.write(bytes, done)
  }

  override _final(done: () => void): void {
    this.connection.finish()
    done()
  }

  override _destroy(_error: Error | null, done: (error?: Error | null) => void): void {
    // The client has yet to read the parser's answer to nonsense.
    this.connection.finish()
    done()
  }
}
