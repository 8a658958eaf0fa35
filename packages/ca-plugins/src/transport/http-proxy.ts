/** The HTTP proxy that the environment names for a CA, and a tunnel through it: https://www.rfc-editor.org/rfc/rfc9110#section-9.3.6 */
import { BlockList, isIP, type Socket } from 'node:net'
import { hideUserinfo } from '@livery/core/plugin'
import { reasonOf } from '../answers/reason-of.ts'
import { formatHostPort, type HostPort, isLoopback } from './host-port.ts'
import { boundInterimAnswers } from './interim-answers.ts'

// An import of node:http loads Node's WebSocket client for its exports: 30 ms of CPU.
const http = process.getBuiltinModule('node:http')

/** The variables of gRPC's clients in order of precedence; programs on HTTP write some in capitals. */
const PROXIES = ['grpc_proxy', 'https_proxy', 'HTTPS_PROXY', 'http_proxy']
const EXCEPTIONS = ['no_grpc_proxy', 'no_proxy', 'NO_PROXY']

interface Proxy extends HostPort {
  /** The value of `Proxy-Authorization`. */
  readonly authorization: string | undefined
}

/** `undefined` for a host that is reached directly. Throws a `TypeError` for a variable that names no HTTP proxy. */
export function proxyFor(host: string, environment: NodeJS.ProcessEnv): Proxy | undefined {
  const variable = PROXIES.find(name => environment[name])
  if (variable === undefined || isLoopback(host)) return undefined
  const exceptions = EXCEPTIONS.map(name => environment[name]).find(Boolean) ?? ''
  if (exceptions.split(',').some(entry => matches(host, entry.trim()))) return undefined
  return parseProxy(variable, environment[variable] ?? '')
}

/** Resolves once bytes on `socket`, which connects to the proxy, go to the target. Rejects with a reason that names the proxy. */
export async function openTunnel(socket: Socket, proxy: Proxy, target: HostPort): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const path = formatHostPort(target)
  const through = `through the proxy ${formatHostPort(proxy)}`
  const headers = { host: path, ...(proxy.authorization && { 'proxy-authorization': proxy.authorization }) }
  boundInterimAnswers(http.request({ method: 'CONNECT', path, headers, createConnection: () => socket }))
    .once('connect', ({ statusCode = 0 }, _, head) => {
      // The server may have sent bytes already.
      if (head.length > 0) socket.unshift(head)
      if (statusCode >= 200 && statusCode < 300) resolve()
      else reject(new Error(`no connection ${through}: it answered CONNECT ${path} with HTTP status ${statusCode}`))
    })
    .once('error', error => reject(new Error(`no connection ${through}: ${reasonOf(error)}`, { cause: error })))
    .end()
  await promise
}

function parseProxy(variable: string, value: string): Proxy {
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (url?.protocol !== 'http:')
    throw new TypeError(
      `Cannot use ${variable} ${JSON.stringify(hideUserinfo(value).slice(0, 256))}: it is not the URL of an HTTP proxy, such as ` +
        'http://proxy.example:3128. Correct it, or name the CA in no_proxy',
    )
  const user = decodeURIComponent(url.password ? `${url.username}:${url.password}` : url.username)
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port || 80),
    authorization: user ? `Basic ${Buffer.from(user).toString('base64')}` : undefined,
  }
}

/** `entry`: `*`, an address, a network such as 10.0.0.0/8, or a domain, which covers the names below it, too. */
function matches(host: string, entry: string): boolean {
  if (entry === '*') return true
  const [network = '', prefix] = entry.split('/')
  if (isIP(host)) return isIP(network) !== 0 && isIn(host, network, prefix)
  const domain = entry.toLowerCase().replace(/^\*?\./, '')
  const name = host.toLowerCase()
  return domain !== '' && (name === domain || name.endsWith(`.${domain}`))
}

function isIn(address: string, network: string, prefix: string | undefined): boolean {
  const family = (text: string) => (isIP(text) === 6 ? 'ipv6' : 'ipv4')
  const bits = Number(prefix ?? (isIP(network) === 6 ? 128 : 32))
  const list = new BlockList()
  if (!Number.isInteger(bits) || bits < 0 || bits > (isIP(network) === 6 ? 128 : 32)) return false
  list.addSubnet(network, bits, family(network))
  return list.check(address, family(address))
}
