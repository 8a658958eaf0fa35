/** A gRPC server that stands in for one of Google's: real sockets, raw bytes, and whatever fault a test asks for. */
import { once } from 'node:events'
import { createServer, type Server as NetServer, type Socket } from 'node:net'
import { Metadata, Server, ServerCredentials, type ServerUnaryCall, status } from '@grpc/grpc-js'
import { RetryInfo, Status } from '../src/gen/google/rpc/status.ts'

/** A call as it arrived. */
export interface StandInCall {
  /** Without the service: `CreateCertificate`. */
  readonly method: string
  readonly request: Buffer
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Resolves when the client gives it up. */
  readonly cancelled: Promise<void>
}

/** Thrown by a handler. */
export class Refusal extends Error {
  readonly code: status
  readonly retryAfterMs: number | undefined

  constructor(code: status, details = 'refused', retryAfterMs?: number) {
    super(details)
    this.code = code
    this.retryAfterMs = retryAfterMs
  }
}

export type Handler = (call: StandInCall) => Promise<Uint8Array>

export interface StandInOptions {
  /** `package.Service`. */
  readonly service: string
  readonly methods: readonly string[]
  /** PEM; default: without TLS. */
  readonly tls?: { readonly cert: string; readonly key: string }
}

/** A stand-in that kept all would look like a leak of the plugin. */
const MAX_CALLS = 100

export class GoogleStandIn implements AsyncDisposable {
  readonly address: string
  /** The latest hundred. */
  readonly calls: StandInCall[] = []
  /** How many connections there have been. */
  connections = 0
  readonly #grpc: Server
  readonly #net: NetServer
  readonly #sockets: ReadonlySet<Socket>
  readonly #waiting: ((call: StandInCall) => void)[] = []

  private constructor(grpc: Server, net: NetServer, sockets: ReadonlySet<Socket>, address: string) {
    this.#grpc = grpc
    this.#net = net
    this.#sockets = sockets
    this.address = address
  }

  static async start({ service, methods, tls }: StandInOptions, handler: Handler): Promise<GoogleStandIn> {
    const grpc = new Server()
    const credentials = tls
      ? ServerCredentials.createSsl(null, [{ cert_chain: Buffer.from(tls.cert), private_key: Buffer.from(tls.key) }])
      : ServerCredentials.createInsecure()
    const injector = grpc.createConnectionInjector(credentials)
    const sockets = new Set<Socket>()
    const net = createServer(socket => {
      standIn.connections++
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
      injector.injectConnection(socket)
    })
    await new Promise<void>((resolve, reject) => net.once('error', reject).listen(0, '127.0.0.1', resolve))
    const bound = net.address()
    const host = tls ? 'localhost' : '127.0.0.1'
    const address = `${host}:${typeof bound === 'object' && bound ? bound.port : 0}`
    const standIn = new GoogleStandIn(grpc, net, sockets, address)
    for (const method of methods) standIn.#serve(service, method, handler)
    return standIn
  }

  /** Resolves with the next call that arrives. */
  nextCall(): Promise<StandInCall> {
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  /** Resolves once no client is connected. */
  async disconnected(): Promise<void> {
    for (const socket of this.#sockets) await once(socket, 'close')
  }

  /** Cuts every connection. */
  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>(resolve => this.#net.close(() => resolve()))
    this.#grpc.forceShutdown()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #serve(service: string, method: string, handler: Handler): void {
    const bytes = { serialize: (value: Buffer) => value, deserialize: (value: Buffer) => value }
    const handle = (call: ServerUnaryCall<Buffer, Buffer>, callback: (error: object | null, value?: Buffer) => void) =>
      this.#handle(method, call, handler).then(
        value => callback(null, value),
        error => callback(refusal(error)),
      )
    this.#grpc.register(`/${service}/${method}`, handle, bytes.serialize, bytes.deserialize, 'unary')
  }

  async #handle(method: string, call: ServerUnaryCall<Buffer, Buffer>, handler: Handler): Promise<Buffer> {
    const headers: Record<string, string> = {}
    for (const [name, value] of Object.entries(call.metadata.getMap())) headers[name] = value.toString()
    const { promise: cancelled, resolve } = Promise.withResolvers<void>()
    call.on('cancelled', () => resolve())
    const arrived: StandInCall = { method, request: call.request, headers, cancelled }
    this.calls.push(arrived)
    if (this.calls.length > MAX_CALLS) this.calls.shift()
    for (const wake of this.#waiting.splice(0)) wake(arrived)
    return Buffer.from(await handler(arrived))
  }
}

function refusal(error: unknown): object {
  if (!(error instanceof Refusal)) return { code: status.INTERNAL, details: String(error) }
  const metadata = new Metadata()
  if (error.retryAfterMs !== undefined) {
    const { retryAfterMs } = error
    const retryDelay = { seconds: BigInt(Math.floor(retryAfterMs / 1000)), nanos: (retryAfterMs % 1000) * 1e6 }
    const value = Buffer.from(RetryInfo.encode({ retryDelay }).finish())
    const info = { typeUrl: 'type.googleapis.com/google.rpc.RetryInfo', value }
    metadata.set('grpc-status-details-bin', Buffer.from(Status.encode({ details: [info] }).finish()))
  }
  return { code: error.code, details: error.message, metadata }
}
