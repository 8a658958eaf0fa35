/** A real gRPC client of a real UNIX socket, as a proxy would use it, with answers to be awaited one by one. */
import type { Client, ClientDuplexStream, ServiceError } from '@grpc/grpc-js'
import { Secret } from '../src/gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import {
  DeltaDiscoveryRequest,
  DeltaDiscoveryResponse,
  DiscoveryRequest,
  DiscoveryResponse,
} from '../src/gen/envoy/service/discovery/v3/discovery.ts'
import { HealthCheckRequest, HealthCheckResponse } from '../src/gen/grpc/health/v1/health.ts'
import { SECRET_TYPE_URL } from '../src/protocol/response-content.ts'
import { peerNode } from './peer-node.ts'
import { connectTo, ResponseStream } from './response-stream.ts'

const SERVICE = '/envoy.service.secret.v3.SecretDiscoveryService'

interface Codec<Message> {
  encode(message: Message): { finish(): Uint8Array }
  decode(bytes: Uint8Array): Message
}

export class SdsClient implements Disposable {
  readonly #client: Client

  constructor(path: string) {
    this.#client = connectTo(path, { 'grpc.initial_reconnect_backoff_ms': 100 })
  }

  sotw(): SotwClientStream {
    return new SotwClientStream(this.#open(`${SERVICE}/StreamSecrets`, DiscoveryRequest, DiscoveryResponse))
  }

  delta(): DeltaClientStream {
    return new DeltaClientStream(this.#open(`${SERVICE}/DeltaSecrets`, DeltaDiscoveryRequest, DeltaDiscoveryResponse))
  }

  /** A stream whose requests are bytes, right or wrong. */
  raw(): ClientStream<Buffer, DiscoveryResponse> {
    return new ClientStream(
      this.#open(`${SERVICE}/StreamSecrets`, { encode: bytes => ({ finish: () => bytes }) }, DiscoveryResponse),
    )
  }

  fetch(request: Partial<DiscoveryRequest>): Promise<DiscoveryResponse> {
    return this.#unary(`${SERVICE}/FetchSecrets`, DiscoveryRequest, DiscoveryResponse, sotwRequest(request))
  }

  async health(service = ''): Promise<number> {
    const path = '/grpc.health.v1.Health/Check'
    return (await this.#unary(path, HealthCheckRequest, HealthCheckResponse, { service })).status
  }

  watchHealth(service = ''): ClientStream<HealthCheckRequest, HealthCheckResponse> {
    const call = this.#open('/grpc.health.v1.Health/Watch', HealthCheckRequest, HealthCheckResponse)
    call.write({ service })
    call.end()
    return new ClientStream(call)
  }

  /** Resolves once the answers to all earlier requests have arrived. */
  async settled(): Promise<void> {
    for (let i = 0; i < 3; i++) await this.health()
  }

  #open<Request, Response>(
    path: string,
    request: Pick<Codec<Request>, 'encode'>,
    response: Pick<Codec<Response>, 'decode'>,
  ): ClientDuplexStream<Request, Response> {
    return this.#client.makeBidiStreamRequest(
      path,
      message => Buffer.from(request.encode(message).finish()),
      bytes => response.decode(bytes),
    )
  }

  [Symbol.dispose](): void {
    this.#client.close()
  }

  #unary<Request, Response>(
    path: string,
    request: Codec<Request>,
    response: Codec<Response>,
    message: Request,
  ): Promise<Response> {
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    this.#client.makeUnaryRequest(
      path,
      (value: Request) => Buffer.from(request.encode(value).finish()),
      bytes => response.decode(bytes),
      message,
      (error: ServiceError | null, value?: Response) => (value === undefined ? reject(error) : resolve(value)),
    )
    return promise
  }
}

class ClientStream<Request, Response> extends ResponseStream<Response> {
  readonly #call: ClientDuplexStream<Request, Response>

  constructor(call: ClientDuplexStream<Request, Response>) {
    super(call)
    this.#call = call
  }

  write(request: Request): void {
    this.#call.write(request)
  }

  end(): void {
    this.#call.end()
  }
}

export class SotwClientStream extends ClientStream<DiscoveryRequest, DiscoveryResponse> {
  /** The first request of a proxy, or a later one without a nonce. */
  ask(...resourceNames: string[]): void {
    this.send({ resourceNames })
  }

  send(request: Partial<DiscoveryRequest>): void {
    this.write(sotwRequest(request))
  }

  ack(response: DiscoveryResponse, ...resourceNames: string[]): void {
    this.send({ versionInfo: response.versionInfo, responseNonce: response.nonce, resourceNames, node: undefined })
  }

  nack(response: DiscoveryResponse, message: string, ...resourceNames: string[]): void {
    const errorDetail = { code: 13, message }
    this.send({ responseNonce: response.nonce, resourceNames, node: undefined, errorDetail })
  }
}

class DeltaClientStream extends ClientStream<DeltaDiscoveryRequest, DeltaDiscoveryResponse> {
  subscribe(...resourceNamesSubscribe: string[]): void {
    this.send({ resourceNamesSubscribe })
  }

  send(request: Partial<DeltaDiscoveryRequest>): void {
    this.write({
      node: peerNode('test-node'),
      typeUrl: SECRET_TYPE_URL,
      resourceNamesSubscribe: [],
      resourceNamesUnsubscribe: [],
      initialResourceVersions: {},
      responseNonce: '',
      errorDetail: undefined,
      ...request,
    })
  }

  ack(response: DeltaDiscoveryResponse): void {
    this.send({ responseNonce: response.nonce, node: undefined })
  }
}

function sotwRequest(request: Partial<DiscoveryRequest>): DiscoveryRequest {
  return {
    versionInfo: '',
    node: peerNode('test-node'),
    resourceNames: [],
    typeUrl: SECRET_TYPE_URL,
    responseNonce: '',
    errorDetail: undefined,
    ...request,
  }
}

/** The secrets of an answer by name. */
export function secretsOf(response: DiscoveryResponse | DeltaDiscoveryResponse): Map<string, Secret> {
  const secrets = new Map<string, Secret>()
  for (const resource of response.resources) {
    const any = 'resource' in resource ? resource.resource : resource
    const secret = Secret.decode(any?.value ?? Buffer.alloc(0))
    secrets.set(secret.name, secret)
  }
  return secrets
}

/** The names of an answer, sorted. */
export function namesOf(response: DiscoveryResponse | DeltaDiscoveryResponse): string[] {
  return [...secretsOf(response).keys()].sort()
}
