/** Checks whether ports and sockets of this machine answer. */
import { connect } from 'node:net'

/** Whether a connection to a port of this machine, or to the path of a socket, is accepted. */
export async function accepts(at: number | string): Promise<true | undefined> {
  const connection = typeof at === 'number' ? connect(at, '127.0.0.1') : connect(at)
  const { promise, resolve } = Promise.withResolvers<true | undefined>()
  connection.once('connect', () => resolve(true)).once('error', () => resolve(undefined))
  const answer = await promise
  connection.destroy()
  return answer
}
