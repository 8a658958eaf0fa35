/** Ports and sockets of this machine: which are free, and which answer. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** Whether a connection to a port of this machine, or to the path of a socket, is accepted. */
export async function accepts(at: number | string): Promise<true | undefined> {
  const connection = typeof at === 'number' ? connect(at, '127.0.0.1') : connect(at)
  const { promise, resolve } = Promise.withResolvers<true | undefined>()
  connection.once('connect', () => resolve(true)).once('error', () => resolve(undefined))
  const answer = await promise
  connection.destroy()
  return answer
}

/** A port that nothing listens on now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('the listener has no port')
  return address.port
}
