/** Where a SPIFFE Workload API listens: https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE_Workload_Endpoint.md, section 4. */

import { isIPv4, isIPv6 } from 'node:net'
import { MAX_SOCKET_PATH_BYTES } from '@livery/core/plugin'
import { isLoopback } from '../../transport/host-port.ts'

const FORMS = 'Write unix:///path/to/socket, or tcp://<IP address>:<port>'

/** Why `text` cannot be the address of a Workload API, as the `problem` of an option; `undefined` if it is one. */
export function endpointProblem(text: string): string | undefined {
  if (text.startsWith('unix:')) return unixProblem(text)
  if (text.startsWith('tcp:')) return tcpProblem(text)
  if (text.startsWith('/')) return `is a path. Write unix://${text}`
  return `begins neither with unix:// nor with tcp://. ${FORMS}`
}

/** The target by which gRPC knows it. Only for a text without a problem. */
export function grpcTarget(text: string): string {
  if (text.startsWith('unix:')) return `unix:${text.slice('unix://'.length)}`
  return `${text.includes('[') ? 'ipv6' : 'ipv4'}:${text.slice('tcp://'.length)}`
}

/** Whether keys would cross a network, since the Workload API has no TLS. */
export function leavesMachine(text: string): boolean {
  const host = tcpHost(text)
  return host !== undefined && !isLoopback(host)
}

function unixProblem(text: string): string | undefined {
  const path = /^unix:\/\/(\/[^?#\0]*)$/.exec(text)?.[1]
  if (path === undefined || path.endsWith('/'))
    return `names no absolute path of a socket, without host, query and fragment. ${FORMS}`
  const bytes = Buffer.byteLength(path)
  if (bytes <= MAX_SOCKET_PATH_BYTES) return undefined
  return `has a path of ${bytes} bytes, and the kernel allows ${MAX_SOCKET_PATH_BYTES}. Choose a shorter one`
}

function tcpProblem(text: string): string | undefined {
  const host = tcpHost(text)
  const port = Number(/:(\d{1,5})$/.exec(text)?.[1])
  if (host !== undefined && port > 0 && port <= 65_535) return undefined
  return `names no IP address and port alone. ${FORMS}`
}

function tcpHost(text: string): string | undefined {
  const [, v6, v4] = /^tcp:\/\/(?:\[([^\]]+)\]|([\d.]+)):\d{1,5}$/.exec(text) ?? []
  if (v6 !== undefined) return isIPv6(v6) ? v6 : undefined
  return v4 !== undefined && isIPv4(v4) ? v4 : undefined
}
