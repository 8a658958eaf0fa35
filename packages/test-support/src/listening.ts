/** Servers and ports on the loopback address. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/** Resolves with `server` when it listens at `place`: a port of 127.0.0.1, by default a free one, or the path of a socket. */
export async function listening<Listener extends Server>(
  server: Listener,
  place: number | string = 0,
): Promise<Listener> {
  if (typeof place === 'string') server.listen(place)
  else server.listen(place, '127.0.0.1')
  await once(server, 'listening')
  return server
}

/** The port that `server` listens at. */
export function portOf(server: Server): number {
  const address = server.address()
  if (address === null || typeof address === 'string')
    throw new Error(`the server listens at ${address}, not at a port`)
  return address.port
}

const given = new Set<number>()

/**
 * A port for a process that cannot take any. Never the same one twice in a process: two Envoys with one port share it (SO_REUSEPORT), and
 * take each other's connections.
 */
export async function freePort(): Promise<number> {
  const server = await listening(createServer())
  const port = portOf(server)
  await server[Symbol.asyncDispose]()
  if (given.has(port)) return freePort()
  given.add(port)
  return port
}
