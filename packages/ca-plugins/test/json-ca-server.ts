/** An HTTP server for stand-ins of CAs that speak JSON: real sockets, with or without TLS, and faults on demand. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import type { Clock } from '@livery/core/plugin'
import { listening, portOf } from '@livery/test-support'
import type { FakeCA, FakeCAAnswer, RefusalCode } from '../src/conformance/index.ts'

/** A call as it arrived. */
export interface JsonCall {
  readonly method: string
  /** With its query; without scheme and host. */
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly json: Readonly<Record<string, unknown>>
  /** Resolves when the client gives it up. */
  readonly cancelled: Promise<void>
}

export type JsonReply =
  | {
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      /** An object is sent as JSON, a text as it is, and pieces as they are taken. */
      readonly body?: object | string | Readable
      /** Send the first half. */
      readonly truncated?: boolean
    }
  /** The connection is reset. */
  | 'reset'

/** A call that is never answered is one whose promise never settles. */
export type JsonHandler = (call: JsonCall) => Promise<JsonReply>

/** The options that the stand-ins of this kind share. */
export interface JsonStandInOptions {
  readonly ca: FakeCA
  readonly clock: Clock
  readonly tls?: ServerTls
  /** If it gives a promise, that is the reply. */
  readonly behaviour?: (call: JsonCall) => Promise<JsonReply> | undefined
}

interface ServerTls {
  readonly cert: string
  readonly key: string
}

/** A stand-in that kept all would look like a leak of the plugin. */
const MAX_CALLS = 100

export class JsonCaServer implements AsyncDisposable {
  /** `http://127.0.0.1:…`, with TLS `https://localhost:…`. */
  readonly address: string
  /** The latest hundred. */
  readonly calls: JsonCall[] = []
  /** How many connections there have been. */
  connections = 0
  readonly #http: Server
  readonly #sockets = new Set<Socket>()
  readonly #waiting: ((call: JsonCall) => void)[] = []
  #lastLeft = Promise.withResolvers<void>()

  private constructor(http: Server, address: string, handler: JsonHandler) {
    this.#http = http
    this.address = address
    http.on('request', (incoming, response) => void this.#handle(incoming, response, handler))
    http.on('connection', (socket: Socket) => {
      this.connections++
      this.#sockets.add(socket)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        if (this.#sockets.size > 0) return
        this.#lastLeft.resolve()
        this.#lastLeft = Promise.withResolvers()
      })
    })
  }

  /** Answers with `handler` the calls to which `behaviour` gives no reply. */
  static startStandIn({ behaviour, tls }: JsonStandInOptions, handler: JsonHandler): Promise<JsonCaServer> {
    return JsonCaServer.start(call => behaviour?.(call) ?? handler(call), tls)
  }

  static async start(handler: JsonHandler, tls?: ServerTls): Promise<JsonCaServer> {
    const http: Server = tls ? createTlsServer({ ...tls }) : createServer()
    http.keepAliveTimeout = 0
    await listening(http)
    const origin = tls ? 'https://localhost' : 'http://127.0.0.1'
    return new JsonCaServer(http, `${origin}:${portOf(http)}`, handler)
  }

  /** Resolves with the next call that arrives. */
  nextCall(): Promise<JsonCall> {
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  /** Resolves once no client is connected. */
  async disconnected(): Promise<void> {
    if (this.#sockets.size > 0) await this.#lastLeft.promise
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise(resolve => this.#http.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  async #handle(incoming: IncomingMessage, response: ServerResponse, handler: JsonHandler): Promise<void> {
    const { promise: cancelled, resolve } = Promise.withResolvers<void>()
    response.on('close', () => {
      if (!response.writableFinished) resolve()
    })
    const { method = '', url = '', headers } = incoming
    const call = { method, path: url, headers, json: await readJson(incoming), cancelled }
    this.calls.push(call)
    if (this.calls.length > MAX_CALLS) this.calls.shift()
    for (const wake of this.#waiting.splice(0)) wake(call)
    answer(response, await handler(call))
  }
}

function answer(response: ServerResponse, reply: JsonReply): void {
  if (reply === 'reset') {
    response.socket?.resetAndDestroy()
    return
  }
  const { status, headers = {}, body = '', truncated = false } = reply
  if (body instanceof Readable) {
    pipeline(body, response.writeHead(status, headers), () => {})
    return
  }
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const type = typeof body === 'string' ? 'text/html' : 'application/json'
  response.writeHead(status, { 'content-type': type, ...headers })
  response.end(truncated ? bytes.subarray(0, bytes.length / 2) : bytes)
}

async function readJson(incoming: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString()
  return text === '' ? {} : JSON.parse(text)
}

type Refused = Extract<FakeCAAnswer, { kind: 'refused' }>
type Issued = Extract<FakeCAAnswer, { kind: 'issued' }>

/** A server's handling of an answer of the kit's CA: `issued` and `refused` write its protocol. */
export function replyOf(
  answered: FakeCAAnswer,
  write: { issued(answer: Issued): JsonReply; refused(answer: Refused): JsonReply },
): JsonReply {
  switch (answered.kind) {
    case 'issued':
      return write.issued(answered)
    case 'refused':
      return write.refused(answered)
    case 'garbage':
      return { status: 200, body: answered.text }
    case 'endless':
      return { status: 200, body: Readable.from(answered.pieces) }
    case 'reset':
      return 'reset'
    case 'pending':
      return write.refused({ kind: 'refused', code: 'unavailable', message: 'there are no tickets' })
  }
}

/** `Retry-After`, where the CA wants it. */
export function retryAfter({ retryAfterMs }: Refused): Readonly<Record<string, string>> {
  return retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) }
}

export type Refusals = Readonly<Record<RefusalCode, readonly [status: number, text: string]>>
