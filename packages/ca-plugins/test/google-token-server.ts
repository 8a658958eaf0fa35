/** A token service that stands in for Google's: an STS (RFC 8693), and a metadata server. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { listening, portOf } from '@livery/test-support'

export interface TokenRequest {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: URLSearchParams
}

/** Status and JSON, or nothing: then it never answers. */
export type TokenAnswer = { readonly status: number; readonly json: object } | undefined

export class GoogleTokenServer implements AsyncDisposable {
  readonly address: string
  readonly requests: TokenRequest[] = []
  answer: (request: TokenRequest) => TokenAnswer = () => ({ status: 500, json: {} })
  readonly #server: Server
  readonly #waiting: (() => void)[] = []

  private constructor(server: Server, address: string) {
    this.#server = server
    this.address = address
  }

  static async start(): Promise<GoogleTokenServer> {
    const server = await listening(createServer())
    const tokens = new GoogleTokenServer(server, `127.0.0.1:${portOf(server)}`)
    server.on('request', (request, response) => void tokens.#handle(request, response))
    return tokens
  }

  /** Resolves when the next request has arrived. */
  arrived(): Promise<void> {
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server.close(), 'close')
    this.#server.closeAllConnections()
    await closed
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = new URLSearchParams((await request.toArray()).join(''))
    const received = { path: request.url ?? '', headers: request.headers, body }
    this.requests.push(received)
    const answer = this.answer(received)
    for (const wake of this.#waiting.splice(0)) wake()
    if (!answer) return
    response.writeHead(answer.status, { 'content-type': 'application/json', 'metadata-flavor': 'Google' })
    response.end(JSON.stringify(answer.json))
  }
}
