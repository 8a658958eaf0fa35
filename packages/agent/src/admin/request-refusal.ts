/** Requests that are refused before anything is done for them: from other web pages, with a body, with too many headers. */
import { realpathSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { isIP, isIPv4, isIPv6 } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { type Answer, text } from './answer.ts'
import { isSame } from './operator.ts'

/** No route takes a body; a body that a client sends all the same is not read. */
const MAX_BODY_BYTES = 1_024
const MAX_HEADERS = 100
const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost', '[::1]'])

/** `host`: the listening address, `undefined` for a UNIX socket. */
interface Listener {
  readonly routes: 'admin' | 'health'
  readonly host: string | undefined
  /** The token by which the agent's own page proves its requests. */
  readonly pageToken: string
  readonly configFile: string | undefined
}

/** The header by which a command says whose agent it means: the configuration that it read the address from. */
export const CONFIG_HEADER = 'x-livery-config'
/** The request was meant for another agent (RFC 9110, section 15.5.20). */
export const MISDIRECTED = 421

/** Names a configuration file for {@link CONFIG_HEADER}, the same by every path to its folder. */
export function nameConfig(file: string): string {
  return encodeURI(join(realpathSync(dirname(file)), basename(file)))
}

/** The answer to a refused request; `undefined` for others. */
export function refusal(listener: Listener, request: IncomingMessage): Answer | undefined {
  const { routes, host, configFile } = listener
  const { headers, rawHeaders } = request
  if (rawHeaders.length > 2 * MAX_HEADERS) return text(431, `A request here has at most ${MAX_HEADERS} headers.\n`)
  if (countOf(rawHeaders, 'host') > 1) return text(400, 'The request has more than one Host header.\n')
  if (routes === 'admin' && !isOwnHost(headers.host, host)) {
    return text(403, 'This endpoint answers to localhost, 127.0.0.0/8, [::1] and its configured host only.\n')
  }
  const page = describePage(listener, request)
  if (page !== undefined) return text(403, `This endpoint does not answer to other web pages: ${page}.\n`)
  const { 'content-length': length, 'transfer-encoding': encoding } = headers
  if (encoding !== undefined || Number(length ?? 0) > MAX_BODY_BYTES)
    return text(413, 'No request here needs a body.\n')
  const meant = headers[CONFIG_HEADER]
  if (routes === 'admin' && meant !== undefined && configFile !== undefined && meant !== configFile)
    return text(MISDIRECTED, `the agent of ${decodeURI(configFile)}\n`)
  return undefined
}

/**
 * Browsers add these headers, and no page can change them (Fetch Metadata, RFC 6454). A page of another site could
 * otherwise make the browser of this machine's user ask here, though it could not read the answer.
 */
function describePage(listener: Listener, request: IncomingMessage): string | undefined {
  const { 'sec-fetch-site': site, origin, host, 'x-livery-page': token } = request.headers
  if (listener.routes === 'admin' && isLinkToPage(request)) return undefined
  if (site !== undefined && site !== 'same-origin' && site !== 'none')
    return 'the request comes from another site (Sec-Fetch-Site)'
  if (origin !== undefined && origin.toLowerCase() !== `http://${host?.toLowerCase()}`)
    return 'the request comes from another origin (Origin)'
  if (request.method !== 'PUT' || (site === undefined && origin === undefined)) return undefined
  const isOwn = origin !== undefined && typeof token === 'string' && isSame(token, listener.pageToken)
  return isOwn ? undefined : 'the request has no Origin, or not the token of the page (x-livery-page)'
}

/** A user follows a link to the page, in a window and not in a frame: nothing is changed, and only the page is read. */
function isLinkToPage({ method, url, headers }: IncomingMessage): boolean {
  const isWindow = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
  return method === 'GET' && url === '/' && headers.origin === undefined && isWindow
}

/**
 * Prevents DNS rebinding: a page in a browser can point its own name at 127.0.0.1, but it cannot change the Host header
 * that goes with it. A client reaches a bare address only on purpose.
 */
function isOwnHost(header: string | undefined, host: string | undefined): boolean {
  const name = header?.toLowerCase().replace(/:\d+$/, '') ?? ''
  if (LOOPBACK_NAMES.has(name) || (name.startsWith('127.') && isIPv4(name))) return true
  if (host === undefined) return false
  const bare = name.replace(/^\[(.*)\]$/, '$1')
  const wildcard = host === '0.0.0.0' || host === '::'
  return wildcard ? isIP(bare) !== 0 : name === (isIPv6(host) ? `[${host.toLowerCase()}]` : host.toLowerCase())
}

function countOf(rawHeaders: readonly string[], name: string): number {
  return rawHeaders.filter((text, index) => index % 2 === 0 && text.toLowerCase() === name).length
}
