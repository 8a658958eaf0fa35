/** The HTTP side of the admin endpoint: it serves this machine's own users, not web pages in their browsers. */

import { randomBytes } from 'node:crypto'
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createListener, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { PeerCredentials, ReadPeerCredentials } from '@livery/core'
import { systemErrorCode, untilAborted } from '@livery/core/plugin'
import { asSocket, descriptorOf, SocketFile } from '@livery/sds-server'
import { formatListenAddress, type ListenAddress, type SocketPath } from '../schema/values.ts'
import type { AdminSource } from './admin-source.ts'
import { type Answer, BUSY, text } from './answer.ts'
import { type AdminConnection, ConnectionPool, MAX_HEAD_BYTES } from './connections.ts'
import { refusal } from './request-refusal.ts'
import { RequestStream } from './request-stream.ts'
import { type MakeRoutes, Router } from './routes.ts'
import { WorkLane, writePieces } from './work-lane.ts'

// An import of node:http loads Node's client of WebSockets, for its exports: 30 ms of CPU.
const { createServer } = process.getBuiltinModule('node:http')

export interface AdminServerOptions {
  /** `admin`: all routes, if the request names this machine; `health`: probes and metrics, for anybody. */
  readonly routes: 'admin' | 'health'
  /** Port 0 lets the kernel choose. */
  readonly address: ListenAddress
  /** The file of a UNIX socket; default: mode 0600, owned by the user of the process. */
  readonly file?: {
    readonly mode?: number | undefined
    readonly owner?: number | undefined
    readonly group?: number | undefined
  }
  /** Identifies the peer of a UNIX socket; without it no caller there is known. */
  readonly readPeerCredentials?: ReadPeerCredentials | undefined
  readonly source: AdminSource
  /** Further routes of the admin endpoint. */
  readonly makeRoutes?: MakeRoutes | undefined
  /** Ends the retries. */
  readonly signal?: AbortSignal
  /** Called on a fault while answering; the client has got a 500 without details. */
  readonly onError: (error: unknown) => void
}

/** The kernel's default: clients behind a flood need not try again. */
const BACKLOG = 4096

/** A listening admin endpoint. */
export class AdminServer<Address extends ListenAddress = ListenAddress> implements AsyncDisposable {
  readonly address: Address
  readonly #close: () => Promise<void>
  readonly #pool: ConnectionPool

  private constructor(address: Address, pool: ConnectionPool, close: () => Promise<void>) {
    this.address = address
    this.#pool = pool
    this.#close = close
  }

  /** Binds; rejects with an `Error` that names the address, the cause and the remedy. */
  static async listen<A extends ListenAddress>(
    options: AdminServerOptions & { readonly address: A },
  ): Promise<AdminServer<A>> {
    const answers = new HttpAnswers(options)
    const pool = new ConnectionPool(options.source.clock, connection => answers.answer(connection))
    const { address } = options
    if (isSocketPath(address)) {
      const file = await listenAtPath(options, address, pool)
      return new AdminServer(address, pool, () => file.close())
    }
    const server = createListener(socket => pool.add(socket))
    const port = await listenAtPort(options, address, server)
    return new AdminServer({ ...address, port }, pool, async () => {
      const closed = Promise.withResolvers<void>()
      server.close(() => closed.resolve())
      pool[Symbol.dispose]()
      await closed.promise
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = this.#close()
    this.#pool[Symbol.dispose]()
    await closed
  }
}

function isSocketPath(address: ListenAddress): address is SocketPath {
  return 'path' in address
}

async function listenAtPort(options: AdminServerOptions, address: ListenAddress, server: Server): Promise<number> {
  const { host, port } = address
  const bound = Promise.withResolvers<void>()
  server.once('error', bound.reject).listen({ host, port, backlog: BACKLOG }, bound.resolve)
  try {
    await bound.promise
  } catch (cause) {
    throw new Error(bindFailure(options, cause), { cause })
  }
  server.off('error', bound.reject).on('error', options.onError)
  const actual = server.address()
  return typeof actual === 'object' && actual ? actual.port : (port ?? 0)
}

const ONLY_OWNER = 0o600

function listenAtPath(
  { source, file = {}, readPeerCredentials, signal, onError }: AdminServerOptions,
  { path }: SocketPath,
  pool: ConnectionPool,
): Promise<SocketFile> {
  const { mode = ONLY_OWNER, owner, group } = file
  return SocketFile.listen({
    path,
    mode,
    ...(owner !== undefined && { owner }),
    ...(group !== undefined && { group }),
    clock: source.clock,
    readPeerCredentials,
    signal,
    onArrival: asSocket(socket => pool.add(socket, credentialsOf(socket, readPeerCredentials))),
    onEvent: event => {
      if ('error' in event) onError(event.error)
      source.security?.({ kind: 'admin-socket-disturbed', event: event.kind, path })
    },
  })
}

function credentialsOf(socket: Socket, read: ReadPeerCredentials | undefined): PeerCredentials | undefined {
  const descriptor = descriptorOf(socket)
  try {
    return descriptor === undefined ? undefined : read?.(descriptor)
  } catch {
    // It has left already.
    return undefined
  }
}

/** Parses the heads of requests and answers them. */
class HttpAnswers {
  readonly #options: AdminServerOptions
  readonly #router: Router
  /** It never listens: it gets each request as a separate stream. */
  readonly #http: HttpServer
  readonly #lane = new WorkLane()
  readonly #pageToken = randomBytes(32).toString('base64url')

  constructor(options: AdminServerOptions) {
    this.#options = options
    const { routes, source, makeRoutes } = options
    const added = routes === 'admin' ? makeRoutes?.(source, this.#pageToken) : undefined
    this.#router = new Router(routes, source, added)
    // Connections have their deadlines in the pool.
    this.#http = createServer({ maxHeaderSize: MAX_HEAD_BYTES, insecureHTTPParser: false, keepAliveTimeout: 0 })
    this.#http.on('request', (request, response) => void this.#handle(request, response))
    this.#http.on('clientError', refuseNonsense)
  }

  answer(connection: AdminConnection): void {
    if (connection.head.length > MAX_HEAD_BYTES) connection.refuse(refusalLine(HEAD_TOO_LONG))
    else this.#http.emit('connection', new RequestStream(connection, connection.head))
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { routes, address, source, onError } = this.#options
    const stream: unknown = request.socket
    if (!(stream instanceof RequestStream)) return
    const { connection } = stream
    try {
      const listener = { routes, host: address.host, pageToken: this.#pageToken, configFile: source.configFile }
      const answer = refusal(listener, request) ?? (await this.#dispatch(connection, request))
      await this.#send(connection, request, response, answer)
    } catch (error) {
      // A client that has left is not a fault.
      if (!connection.gone.aborted) onError(error)
      if (response.headersSent || connection.gone.aborted) response.destroy()
      else response.writeHead(500, headersOf(FAILED)).end(FAILED.body)
    }
  }

  async #dispatch({ credentials }: AdminConnection, request: IncomingMessage): Promise<Answer> {
    const target = request.url ?? '/'
    // Only path and query matter: a whole URL would name another host.
    const url = target.startsWith('/') ? URL.parse(`http://localhost${target}`) : null
    if (!url) return text(400, 'The path of the request cannot be read.\n')
    const { method = '', headers } = request
    const { authorization } = headers
    const { address, readPeerCredentials } = this.#options
    const isUnidentifiable = isSocketPath(address) && !readPeerCredentials
    const caller = { credentials, isUnidentifiable, authorization }
    return await this.#router.answer({
      method,
      path: url.pathname,
      query: url.searchParams,
      headers,
      caller,
    })
  }

  async #send(
    connection: AdminConnection,
    request: IncomingMessage,
    response: ServerResponse,
    answer: Answer,
  ): Promise<void> {
    const { body } = answer
    if (typeof body === 'string') {
      const length = Buffer.byteLength(body)
      const isHead = request.method === 'HEAD'
      if (!(await connection.answered(isHead ? 0 : length)))
        return await this.#send(connection, request, response, BUSY)
      // A 304 would state the length of the client's own copy (RFC 9110, section 8.6).
      const size = answer.status === 304 ? {} : { 'content-length': length }
      response.writeHead(answer.status, { ...headersOf(answer), ...size })
      response.end(isHead ? undefined : body)
    } else if (request.method === 'HEAD') response.writeHead(answer.status, headersOf(answer)).end()
    else if (typeof body === 'function') {
      if (!connection.streams()) return await this.#send(connection, request, response, TOO_MANY_STREAMS)
      const { gone } = connection
      response.writeHead(answer.status, headersOf(answer))
      await body({ gone, write: text => untilAborted(written(response, text), gone) })
    } else if (this.#lane.isFull) await this.#send(connection, request, response, BUSY)
    else {
      const { gone } = connection
      await this.#lane.run(async () => {
        response.writeHead(answer.status, headersOf(answer))
        await writePieces(response, body, gone)
      }, gone)
    }
  }
}

/** Resolves when the socket has taken it. */
function written(response: ServerResponse, text: string): Promise<void> {
  return new Promise((resolve, reject) => response.write(text, error => (error ? reject(error) : resolve())))
}

/** Answers bytes that are not HTTP to Node's parser, which is strict here. */
function refuseNonsense(error: Error & { readonly code?: string }, stream: Duplex): void {
  stream.end(refusalLine(error.code === 'HPE_HEADER_OVERFLOW' ? HEAD_TOO_LONG : '400 Bad Request'))
}

const HEAD_TOO_LONG = '431 Request Header Fields Too Large'

function refusalLine(status: string): string {
  return `HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`
}

const TOO_MANY_STREAMS = text(429, 'Eight pages follow this agent already. Close one of them.\n', {
  'retry-after': '5',
})
const FAILED = text(500, 'The agent could not answer this; the reason is in its log.\n')

function headersOf({ contentType, headers }: Answer): Record<string, string> {
  return {
    'content-type': contentType,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // Nothing behind the first request is read.
    connection: 'close',
    ...headers,
  }
}

function bindFailure({ routes, address }: AdminServerOptions, cause: unknown): string {
  const code = systemErrorCode(cause)
  const where = `Cannot listen on ${formatListenAddress(address)} (${routes}.address)`
  switch (code) {
    case 'EADDRINUSE':
      return `${where}: another process, perhaps another livery, has this port. "ss -ltnp" or "lsof -i :${address.port}" names it. Stop it, or change ${routes}.address.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `${where}: this machine has no such address. Use 127.0.0.1 or an address of this machine.`
    case 'EACCES':
      return `${where}: ports below 1024 need privileges. Choose a higher port.`
    default:
      return `${where}: ${cause instanceof Error ? cause.message : cause}. Change ${routes}.address.`
  }
}
