/** A port for a process that cannot take any. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

const given = new Set<number>()

/** Never the same one twice in a process: two Envoys with one port share it (SO_REUSEPORT), and take each other's connections. */
export async function freePort(): Promise<number> {
  const port = await unboundPort()
  if (given.has(port)) return freePort()
  given.add(port)
  return port
}

async function unboundPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
