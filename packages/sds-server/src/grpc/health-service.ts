/** The gRPC health protocol, on the same sockets: https://github.com/grpc/grpc/blob/master/doc/health-checking.md */
import { type Server, type ServerUnaryCall, type ServerWritableStream, type sendUnaryData, status } from '@grpc/grpc-js'
import type { HealthCheckRequest } from '../gen/grpc/health/v1/health.ts'
import { HealthCheckResponse } from '../gen/grpc/health/v1/health.ts'
import { type Decoded, decodeHealthRequest } from '../protocol/request-codec.ts'

const SERVICE = 'grpc.health.v1.Health'
export const HEALTH_PATHS = [`/${SERVICE}/Check`, `/${SERVICE}/Watch`]
const SERVING = 1
const NOT_SERVING = 2
const SERVICE_UNKNOWN = 3

type HealthRequest = Decoded<HealthCheckRequest>

/** Reports SERVING for the server ("") and its services until `stopServing`. */
export class HealthService {
  readonly #services: ReadonlySet<string>
  readonly #watchers = new Set<ServerWritableStream<HealthRequest, Buffer>>()
  #isServing = true

  constructor(services: readonly string[]) {
    this.#services = new Set(['', SERVICE, ...services])
  }

  register(server: Server): void {
    const asIs = (bytes: Buffer) => bytes
    server.register(`/${SERVICE}/Check`, this.#check.bind(this), asIs, decodeHealthRequest, 'unary')
    server.register(`/${SERVICE}/Watch`, this.#watch.bind(this), asIs, decodeHealthRequest, 'serverStream')
  }

  stopServing(): void {
    this.#isServing = false
    for (const call of this.#watchers) call.write(encodeStatus(NOT_SERVING))
  }

  /** Ends the open watches; resolves nothing, as their connections end next. */
  [Symbol.dispose](): void {
    for (const call of this.#watchers) call.end()
    this.#watchers.clear()
  }

  #check({ request }: ServerUnaryCall<HealthRequest, Buffer>, callback: sendUnaryData<Buffer>): void {
    const found = this.#statusOf(request)
    if (found === SERVICE_UNKNOWN) callback({ code: status.NOT_FOUND, details: 'no such service here' })
    else callback(null, encodeStatus(found))
  }

  #watch(call: ServerWritableStream<HealthRequest, Buffer>): void {
    const found = this.#statusOf(call.request)
    call.write(encodeStatus(found))
    if (found === SERVICE_UNKNOWN) return
    this.#watchers.add(call)
    const forget = () => void this.#watchers.delete(call)
    call.on('cancelled', forget)
    call.on('close', forget)
  }

  #statusOf(decoded: HealthRequest): number {
    if (decoded.kind === 'malformed' || !this.#services.has(decoded.request.service)) return SERVICE_UNKNOWN
    return this.#isServing ? SERVING : NOT_SERVING
  }
}

function encodeStatus(value: number): Buffer {
  return Buffer.from(HealthCheckResponse.encode({ status: value }).finish())
}
