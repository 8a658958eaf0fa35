/** A peer at the level of HTTP/2: cheap enough to have thousands, and its flow-control windows are under control. */
import { once } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type OutgoingHttpHeaders } from 'node:http2'
import { connect as connectSocket } from 'node:net'
import { DiscoveryRequest, DiscoveryResponse } from '../src/gen/envoy/service/discovery/v3/discovery.ts'
import { peerNode } from './peer-node.ts'

/** One connection. */
export class RawPeer implements Disposable {
  readonly session: ClientHttp2Session

  /** `initialWindowSize` 0: nothing can be sent to it until `openWindows`. */
  constructor(path: string, settings: { readonly initialWindowSize?: number } = {}) {
    this.session = connect('http://localhost', {
      createConnection: () => connectSocket(path),
      settings,
      peerMaxConcurrentStreams: 100_000,
      // Megabytes wait for the windows of thousands of streams.
      maxSessionMemory: 1_000,
    })
    this.session.on('error', () => {})
    this.session.setMaxListeners(0)
  }

  open(method = 'StreamSecrets'): RawStream {
    return new RawStream(this.request(`/envoy.service.secret.v3.SecretDiscoveryService/${method}`))
  }

  /** A call of the Workload API, without its request. */
  openWorkload(method = 'FetchX509SVID'): ClientHttp2Stream {
    const stream = this.request(`/SpiffeWorkloadAPI/${method}`, { 'workload.spiffe.io': 'true' })
    stream.on('error', () => {})
    return stream
  }

  request(path: string, headers: OutgoingHttpHeaders = {}): ClientHttp2Stream {
    const call = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' }
    return this.session.request({ ...call, ...headers })
  }

  openWindows(initialWindowSize: number): void {
    this.session.settings({ initialWindowSize })
  }

  /** A round trip over the connection. */
  async pinged(): Promise<void> {
    if (this.session.connecting) await once(this.session, 'connect')
    const { promise, resolve } = Promise.withResolvers<void>()
    this.session.ping(() => resolve())
    await promise
  }

  [Symbol.dispose](): void {
    this.session.destroy()
  }
}

export class RawStream {
  readonly http: ClientHttp2Stream
  /** Takes each response as bytes, in place of `next`. */
  onResponse: (message: Buffer) => void
  readonly #responses: DiscoveryResponse[] = []
  #wake: () => void = () => {}
  #unread: Buffer = Buffer.alloc(0)

  constructor(http: ClientHttp2Stream) {
    this.http = http
    this.onResponse = message => {
      this.#responses.push(DiscoveryResponse.decode(message))
      this.#wake()
    }
    http.on('error', () => {})
    http.on('data', (chunk: Buffer) => this.#onData(chunk))
  }

  /** How many responses nobody has taken yet. */
  get queued(): number {
    return this.#responses.length
  }

  ask(...resourceNames: string[]): void {
    this.send({ resourceNames, node: peerNode('raw') })
  }

  ack({ nonce, versionInfo }: DiscoveryResponse, ...resourceNames: string[]): void {
    this.send({ resourceNames, responseNonce: nonce, versionInfo })
  }

  send(request: Partial<DiscoveryRequest>): void {
    this.http.write(requestFrame(request))
  }

  async next(): Promise<DiscoveryResponse> {
    for (;;) {
      const response = this.#responses.shift()
      if (response) return response
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  #onData(chunk: Buffer): void {
    this.#unread = this.#unread.length > 0 ? Buffer.concat([this.#unread, chunk]) : chunk
    while (this.#unread.length >= 5 && this.#unread.length >= 5 + this.#unread.readUInt32BE(1)) {
      const end = 5 + this.#unread.readUInt32BE(1)
      const message = this.#unread.subarray(5, end)
      this.#unread = this.#unread.subarray(end)
      this.onResponse(message)
    }
  }
}

const EMPTY: DiscoveryRequest = {
  versionInfo: '',
  node: undefined,
  resourceNames: [],
  typeUrl: '',
  responseNonce: '',
  errorDetail: undefined,
}

/** A gRPC frame with a request. */
export function requestFrame(request: Partial<DiscoveryRequest>): Buffer {
  const message = DiscoveryRequest.encode({ ...EMPTY, ...request }).finish()
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}
