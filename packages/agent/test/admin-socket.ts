/** Clients of the admin endpoint: of HTTP, and of plain TCP for tests that send it more, or less, than HTTP clients do. */
import { once } from 'node:events'
import { request } from 'node:http'
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

interface AdminAnswer {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly body: string
}

/** Asks on a new connection, and resolves with the whole answer. */
export function ask(
  { address }: { readonly address: HostPort },
  path: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<AdminAnswer> {
  return new Promise((resolve, reject) => {
    const call = request({ ...address, method, path, headers, agent: false }, response => {
      let text = ''
      response.setEncoding('utf8').on('data', part => {
        text += part
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }))
    })
    call.on('error', reject).end(body)
  })
}
