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

/**
 * A port for a process that cannot choose a free one. No other process of the tests gets it while this one runs: two Envoys would
 * share one port (SO_REUSEPORT), and take each other's connections. An abstract socket is the claim, since it ends with its process.
 */
export async function freePort(): Promise<number> {
  const server = await listening(createServer())
  const port = portOf(server)
  await server[Symbol.asyncDispose]()
  return (await claim(port)) ? port : freePort()
}

async function claim(port: number): Promise<boolean> {
  try {
    const server = await listening(createServer(), `\0livery-test-port-${port}`)
    server.unref()
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false
    throw error
  }
}
