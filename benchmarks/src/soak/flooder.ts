/** One flood of the soak, in a separate process with another uid: many connections, all bytes at once, until it is killed. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { getPriority, setPriority } from 'node:os'
import { FLOODS } from '../../../packages/sds-server/test/floods.ts'

export interface FloodOrder {
  readonly socket: string
  readonly uid: number
  /** A name of `FLOODS`. */
  readonly flood: string
  readonly connections: number
  /** The bytes of all connections together. */
  readonly bytes: number
}

/** The soak measures the agent's work, not the CPU that this process takes from it. */
const LOWER_BY = 10

process.once('disconnect', () => process.exit())
process.once('message', async ({ socket, uid, flood, connections, bytes }: FloodOrder) => {
  setPriority(Math.min(getPriority() + LOWER_BY, 19))
  process.setgroups?.([])
  process.setgid?.(uid)
  process.setuid?.(uid)
  const data = FLOODS.find(({ name }) => name === flood)?.connection(Math.floor(bytes / connections))
  if (!data) throw new TypeError(`Cannot flood with ${flood}: there is no such flood`)
  const sockets: Socket[] = []
  for (let count = 0; count < connections; count++) sockets.push(await open(socket))
  process.send?.('connected')
  for (const each of sockets) if (!each.destroyed) each.write(data)
})

async function open(path: string): Promise<Socket> {
  const socket = connect(path)
  await once(socket, 'connect')
  socket.on('error', () => {}).resume()
  return socket
}
