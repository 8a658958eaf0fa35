/** A gRPC server that stands in for one of Google's: real sockets, raw bytes, and whatever fault a test asks for. */
import { Server, ServerCredentials, type ServerUnaryCall, status } from '@grpc/grpc-js'
import { GrpcListener } from '../src/testing/grpc-listener.ts'
import { GrpcStandIn, headersOf } from '../src/testing/grpc-stand-in.ts'
import { refusalMetadata } from '../src/testing/refusal-metadata.ts'

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

interface StandInOptions {
  /** `package.Service`. */
  readonly service: string
  readonly methods: readonly string[]
  /** PEM; default: without TLS. */
  readonly tls?: { readonly cert: string; readonly key: string }
}

const MAX_CALLS = 100

export class GoogleStandIn extends GrpcStandIn<StandInCall> {
  readonly address: string
  readonly #grpc: Server

  private constructor(grpc: Server, listener: GrpcListener, address: string) {
    super(listener, MAX_CALLS)
    this.#grpc = grpc
    this.address = address
  }

  static async start({ service, methods, tls }: StandInOptions, handler: Handler): Promise<GoogleStandIn> {
    const grpc = new Server()
    const credentials = tls
      ? ServerCredentials.createSsl(null, [{ cert_chain: Buffer.from(tls.cert), private_key: Buffer.from(tls.key) }])
      : ServerCredentials.createInsecure()
    const listener = await GrpcListener.listen(grpc, credentials, '127.0.0.1', 0)
    const address = `${tls ? 'localhost' : '127.0.0.1'}:${listener.port}`
    const standIn = new GoogleStandIn(grpc, listener, address)
    for (const method of methods) standIn.#serve(service, method, handler)
    return standIn
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
    const { promise: cancelled, resolve } = Promise.withResolvers<void>()
    call.on('cancelled', () => resolve())
    const arrived: StandInCall = { method, request: call.request, headers: headersOf(call), cancelled }
    this.record(arrived)
    return Buffer.from(await handler(arrived))
  }
}

function refusal(error: unknown): object {
  if (!(error instanceof Refusal)) return { code: status.INTERNAL, details: String(error) }
  return { code: error.code, details: error.message, metadata: refusalMetadata(error.retryAfterMs) }
}
