/** The HTTP side of the admin endpoint: for this machine's own users, not for browsers that were led here. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isIP, isIPv6 } from 'node:net'
import { formatHostPort, type HostPort } from '../config/values.ts'
import { type AdminSource, type Answer, answer, ROUTES, text } from './routes.ts'

export interface AdminServerOptions {
  /** `admin`: all routes, to requests for this machine by name only; `health`: probes and metrics, to anybody. */
  readonly routes: 'admin' | 'health'
  /** Port 0 lets the kernel choose. */
  readonly address: HostPort
  readonly source: AdminSource
  /** A fault while answering; the client has got a 500 without details. */
  readonly onError: (error: unknown) => void
}

/** No route takes a body; what a client sends all the same is not read beyond this. */
const MAX_BODY_BYTES = 1_024

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/** A listening admin endpoint. */
export class AdminServer implements AsyncDisposable {
  readonly address: HostPort
  readonly #server: Server

  private constructor(server: Server, address: HostPort) {
    this.#server = server
    this.address = address
  }

  /** Binds; rejects with an `Error` that names the address, the cause and the remedy. */
  static async listen(options: AdminServerOptions): Promise<AdminServer> {
    const { host, port } = options.address
    const server = createServer({
      maxHeaderSize: 8_192,
      requestTimeout: 10_000,
      headersTimeout: 5_000,
      keepAliveTimeout: 5_000,
    })
    server.timeout = 30_000
    server.maxConnections = 100
    server.on('request', (request, response) => void handle(options, request, response))
    const bound = Promise.withResolvers<void>()
    server.once('error', bound.reject).listen({ host, port }, bound.resolve)
    try {
      await bound.promise
    } catch (cause) {
      throw new Error(bindFailure(options, cause), { cause })
    }
    server.off('error', bound.reject).on('error', options.onError)
    const address = server.address()
    return new AdminServer(server, { host, port: typeof address === 'object' && address ? address.port : port })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = Promise.withResolvers<void>()
    this.#server.close(() => closed.resolve())
    this.#server.closeAllConnections()
    await closed.promise
  }
}

async function handle(options: AdminServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    send(request, response, refusal(options, request) ?? (await dispatch(options, request)))
  } catch (error) {
    options.onError(error)
    send(request, response, text(500, 'The agent could not answer this; its log tells why.\n'))
  }
}

function dispatch({ routes, source }: AdminServerOptions, request: IncomingMessage): Promise<Answer> {
  // Only path and query matter; the base is never seen.
  const url = URL.parse(request.url ?? '/', 'http://localhost')
  if (!url) return Promise.resolve(text(400, 'The path of the request cannot be read.\n'))
  return answer(ROUTES[routes], source, { method: request.method ?? '', path: url.pathname, query: url.searchParams })
}

function refusal({ routes, address }: AdminServerOptions, request: IncomingMessage): Answer | undefined {
  if (routes === 'admin' && !isOwnHost(request.headers.host, address)) {
    return text(403, 'This endpoint answers to localhost, 127.0.0.1, [::1] and its configured host only.\n')
  }
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
  if (encoding !== undefined || Number(length ?? 0) > MAX_BODY_BYTES)
    return text(413, 'No request here needs a body.\n')
  return undefined
}

/**
 * Against DNS rebinding: a page in a browser can point its own name at 127.0.0.1, but it cannot change the Host header
 * that goes with it. An address can only be reached by who means it.
 */
function isOwnHost(header: string | undefined, { host }: HostPort): boolean {
  const name = header?.toLowerCase().replace(/:\d+$/, '') ?? ''
  if (LOOPBACK_NAMES.has(name)) return true
  const bare = name.replace(/^\[(.*)\]$/, '$1')
  const wildcard = host === '0.0.0.0' || host === '::'
  return wildcard ? isIP(bare) !== 0 : name === (isIPv6(host) ? `[${host.toLowerCase()}]` : host.toLowerCase())
}

function send(request: IncomingMessage, response: ServerResponse, { status, contentType, body }: Answer): void {
  if (response.headersSent) return
  const bytes = Buffer.from(body)
  response.writeHead(status, {
    'content-type': contentType,
    'content-length': bytes.length,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // What was not read of the request cannot be taken for the next one.
    ...(request.complete && status < 500 && status !== 413 ? {} : { connection: 'close' }),
  })
  response.end(request.method === 'HEAD' ? undefined : bytes)
}

function bindFailure({ routes, address }: AdminServerOptions, cause: unknown): string {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  const where = `Cannot listen on ${formatHostPort(address)} (${routes}.address)`
  switch (code) {
    case 'EADDRINUSE':
      return `${where}: another process, perhaps another livery, has this port. Stop it, or change ${routes}.address.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `${where}: this machine has no such address. Use 127.0.0.1 or another of its own.`
    case 'EACCES':
      return `${where}: ports below 1024 need privileges. Choose a higher port.`
    default:
      return `${where}: ${cause instanceof Error ? cause.message : cause}. Change ${routes}.address.`
  }
}
