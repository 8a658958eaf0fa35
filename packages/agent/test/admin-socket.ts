/** A plain TCP client of the admin endpoint, for tests that send it more, or less, than HTTP clients do. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { HostPort } from '../src/schema/values.ts'

/** Resolves once it is connected. It reads nothing until it is read or resumed; errors only close it. */
export async function openSocket(address: HostPort): Promise<Socket> {
  const socket = connect({ ...address })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Resolves with everything until the server closes the connection; rejects if it resets it. */
export async function readAll(socket: Socket): Promise<string> {
  let answer = ''
  for await (const part of socket.setEncoding('latin1')) answer += part
  return answer
}

export function getRequest(path: string): string {
  return `GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`
}
