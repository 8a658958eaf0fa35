/** Keep-alive connections to one HTTP server, all made with the same TLS material. */
import type { AgentOptions, Agent as HttpAgent, IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, type AgentOptions as HttpsAgentOptions, request as requestHttps } from 'node:https'
import { TLSSocket } from 'node:tls'
import type { TlsMaterial } from '@livery/core/plugin'
import type { Connection } from './current-connection.ts'
import { boundInterimAnswers } from './interim-answers.ts'
import { keyExchangeOf } from './key-exchange.ts'

// An import of node:http loads Node's WebSocket client for its exports: 30 ms of CPU.
const http = process.getBuiltinModule('node:http')

export interface HttpRequest {
  /** Default: `GET`. */
  readonly method?: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON; a text unchanged, with its type in `headers`. */
  readonly body?: object | string
}

/** Enough for the calls that a node makes at once; further calls wait. */
const MAX_CONNECTIONS = 64
/** How long a connection is idle before TCP probes the peer; Node's default is one second. */
const KEEPALIVE_MS = 20_000

export const AGENT_OPTIONS = {
  keepAlive: true,
  keepAliveMsecs: KEEPALIVE_MS,
  maxSockets: MAX_CONNECTIONS,
  maxFreeSockets: MAX_CONNECTIONS,
}

export function tlsAgent(
  { roots, clientCertificate, groups }: TlsMaterial,
  options: Pick<HttpsAgentOptions, 'maxSockets' | 'rejectUnauthorized'> = {},
): HttpsAgent {
  return new HttpsAgent({
    ...AGENT_OPTIONS,
    minVersion: 'TLSv1.2',
    ...options,
    ...(roots && { ca: roots }),
    ...(groups && { ecdhCurve: groups.join(':') }),
    ...(clientCertificate && { cert: clientCertificate.certificate, key: clientCertificate.key }),
  })
}

export function plainAgent(options: Pick<AgentOptions, 'maxSockets'> = {}): HttpAgent {
  return new http.Agent({ ...AGENT_OPTIONS, ...options })
}

export class HttpPool implements Connection {
  readonly #agent: HttpAgent
  readonly #connected: TlsMaterial['connected']

  constructor(agent: HttpAgent, connected?: TlsMaterial['connected']) {
    this.#agent = agent
    this.#connected = connected
  }

  /** Resolves with the response before its body has come, whatever its status; redirects are not followed. */
  async send(url: URL, { method = 'GET', headers, body }: HttpRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const open = url.protocol === 'https:' ? requestHttps : http.request
    const text = typeof body === 'object' ? JSON.stringify(body) : body
    const request = open(url, {
      agent: this.#agent,
      method,
      headers: {
        accept: 'application/json',
        ...(typeof body === 'object' && { 'content-type': 'application/json' }),
        ...(text !== undefined && { 'content-length': Buffer.byteLength(text) }),
        ...headers,
      },
      signal,
    })
    const connected = this.#connected
    if (connected)
      request.once('socket', socket => {
        if (socket instanceof TLSSocket && !request.reusedSocket)
          socket.once('secureConnect', () => connected(keyExchangeOf(socket)))
      })
    boundInterimAnswers(request)
      // The listener stays after the response: later failures surface on the response stream.
      .on('error', reject)
      .on('response', resolve)
      .end(text)
    return promise
  }

  close(): void {
    this.#agent.destroy()
  }
}
