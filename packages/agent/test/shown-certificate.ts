/** Which certificate a TLS server shows. */
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { type ConnectionOptions, connect } from 'node:tls'
import type { IssuedPair } from '@livery/core/testing'

/** The serial of the certificate that a server shows, once it has answered a request or echoed it. */
export async function serialOf(port: number, servername: string, own: ConnectionOptions = {}): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', servername, rejectUnauthorized: false, ...own })
  try {
    await once(socket, 'secureConnect')
    socket.write('GET / HTTP/1.1\r\n\r\n')
    await once(socket, 'data', { signal: AbortSignal.timeout(2_000) })
    return socket.getPeerX509Certificate()?.serialNumber ?? ''
  } finally {
    socket.destroy()
  }
}

export function serial({ chain }: IssuedPair): string {
  return new X509Certificate(chain[0] ?? '').serialNumber
}
