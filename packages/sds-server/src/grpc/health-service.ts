/** The gRPC health protocol, on the same sockets: https://github.com/grpc/grpc/blob/master/doc/health-checking.md */
import { HealthCheckRequest, HealthCheckResponse } from '../gen/grpc/health/v1/health.ts'
import { ResponseFrame } from '../protocol/response-frame.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { CallOpener } from './session-guard.ts'
import type { SocketCalls } from './socket-calls.ts'
import type { UnaryCall, UnaryMethod } from './unary-call.ts'

const SERVICE = 'grpc.health.v1.Health'
const SERVING = 1
const NOT_SERVING = 2
const SERVICE_UNKNOWN = 3
/** No service of ours has a longer name. */
const MAX_REQUEST = 512

/** Reports SERVING for the server ("") and its services until `stopServing`. */
export class HealthService {
  readonly openers: ReadonlyMap<string, CallOpener>
  readonly #services: ReadonlySet<string>
  readonly #watchers = new Set<UnaryCall>()
  #isServing = true

  constructor(services: readonly string[], calls: SocketCalls) {
    this.#services = new Set(['', SERVICE, ...services])
    const check: UnaryMethod = { kind: 'health', answer: (request, call) => this.#check(request, call) }
    const watch: UnaryMethod = { kind: 'health', answer: (request, call) => this.#watch(request, call) }
    this.openers = new Map([
      [`/${SERVICE}/Check`, (call, connection) => calls.serveUnary(call, connection, check)],
      [`/${SERVICE}/Watch`, (call, connection) => calls.serveUnary(call, connection, watch)],
    ])
  }

  stopServing(): void {
    this.#isServing = false
    for (const call of this.#watchers) send(call, NOT_SERVING)
  }

  /** Ends the open watches; resolves nothing, as their connections end next. */
  [Symbol.dispose](): void {
    for (const call of this.#watchers) call.finish()
    this.#watchers.clear()
  }

  #check(request: Buffer, call: UnaryCall): void {
    const found = this.#statusOf(request)
    if (found === SERVICE_UNKNOWN) throw new StreamRefusal('not-found', 'no such service here')
    send(call, found)
    call.finish()
  }

  #watch(request: Buffer, call: UnaryCall): void {
    const found = this.#statusOf(request)
    send(call, found)
    if (found === SERVICE_UNKNOWN) return
    this.#watchers.add(call)
    call.onEnded = () => void this.#watchers.delete(call)
  }

  #statusOf(request: Buffer): number {
    if (request.length > MAX_REQUEST) return SERVICE_UNKNOWN
    try {
      if (!this.#services.has(HealthCheckRequest.decode(request).service)) return SERVICE_UNKNOWN
    } catch {
      return SERVICE_UNKNOWN
    }
    return this.#isServing ? SERVING : NOT_SERVING
  }
}

function send(call: UnaryCall, status: number): void {
  const message = HealthCheckResponse.encode({ status }).finish()
  const frame = new ResponseFrame(message.length)
  frame.bytes.set(message, ResponseFrame.start)
  call.send(frame.acquire(), () => {})
}
