/** A SPIFFE Workload API that stands in for a SPIRE agent: a real socket, real streams, what it is given it pushes, and it fails as a test asks. */
import { type Metadata, Server, ServerCredentials, type ServerWritableStream, status } from '@grpc/grpc-js'
import { pemToDer, type SpiffeId } from '@livery/core/plugin'
import type { FakeCA } from '../src/conformance/kit/fake-ca.ts'
import { X509BundlesResponse, X509SVIDResponse } from '../src/gen/spiffe/workload/workload.ts'
import { GrpcListener } from '../src/testing/grpc-listener.ts'

type WorkloadMethod = 'FetchX509SVID' | 'FetchX509Bundles'

interface GivenSvid {
  readonly identity: string
  /** PEM. */
  readonly chain: readonly string[]
  readonly privateKey: Uint8Array
  readonly roots: readonly string[]
  readonly hint?: string
}

/** Its action on a stream that is opened. */
export type WorkloadBehaviour =
  | { readonly kind: 'push' }
  | { readonly kind: 'refuse'; readonly code: status; readonly details?: string; readonly method?: WorkloadMethod }
  | { readonly kind: 'silent' }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }

type Stream = ServerWritableStream<Buffer, Uint8Array>

export class WorkloadApiStandIn implements AsyncDisposable {
  readonly path: string
  behaviour: WorkloadBehaviour = { kind: 'push' }
  /** Streams that were opened, refused ones too. */
  readonly opened: { readonly method: WorkloadMethod; readonly metadata: Metadata }[] = []
  /** Messages that were pushed. */
  sent = 0
  readonly #listener: GrpcListener
  readonly #streams = new Map<Stream, WorkloadMethod>()
  readonly #waiting: (() => void)[] = []
  #svids: Uint8Array = new Uint8Array()
  #bundles: Uint8Array = new Uint8Array()

  private constructor(path: string, grpc: Server, listener: GrpcListener) {
    this.path = path
    this.#listener = listener
    for (const method of ['FetchX509SVID', 'FetchX509Bundles'] as const)
      grpc.register(
        `/SpiffeWorkloadAPI/${method}`,
        (stream: Stream) => this.#serve(method, stream),
        (bytes: Uint8Array) => Buffer.from(bytes),
        (bytes: Buffer) => bytes,
        'serverStream',
      )
  }

  static async start(path: string): Promise<WorkloadApiStandIn> {
    const grpc = new Server()
    const listener = await GrpcListener.listenAt(grpc, ServerCredentials.createInsecure(), path)
    return new WorkloadApiStandIn(path, grpc, listener)
  }

  get address(): string {
    return `unix://${this.path}`
  }

  get connections(): number {
    return this.#listener.connections
  }

  /** How many streams are open. */
  get open(): number {
    return this.#streams.size
  }

  /** To all streams that are open, and to those to come. `bundles`: by trust domain, PEM. */
  give(svids: readonly GivenSvid[], bundles: Readonly<Record<string, readonly string[]>>): void {
    this.#svids = X509SVIDResponse.encode({
      svids: svids.map(({ identity, chain, privateKey, roots, hint = '' }) => ({
        spiffeId: identity,
        x509Svid: toDer(chain),
        x509SvidKey: pemToDer(Buffer.from(privateKey).toString()),
        bundle: toDer(roots),
        hint,
      })),
    }).finish()
    const entries = Object.entries(bundles).map(([name, roots]) => [`spiffe://${name}`, toDer(roots)] as const)
    this.#bundles = X509BundlesResponse.encode({ bundles: new Map(entries) }).finish()
    for (const [stream, method] of this.#streams) this.#write(method, stream)
  }

  /** Resolves once so many streams have been opened, from the start. */
  async opening(count: number): Promise<void> {
    while (this.opened.length < count) await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  /** Ends the streams as a server does that is done with them. */
  end(): void {
    for (const stream of this.#streams.keys()) stream.end()
  }

  /** Ends the streams with this status. */
  refuse(code: status, details: string): void {
    for (const stream of this.#streams.keys()) refuse(stream, code, details)
  }

  /** Cuts every connection. */
  reset(): void {
    this.#listener.reset()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#listener[Symbol.asyncDispose]()
  }

  #serve(method: WorkloadMethod, stream: Stream): void {
    this.opened.push({ method, metadata: stream.metadata })
    for (const wake of this.#waiting.splice(0)) wake()
    const { behaviour } = this
    const isMarked = stream.metadata.get('workload.spiffe.io').join() === 'true'
    if (!isMarked) refuse(stream, status.INVALID_ARGUMENT, 'security header missing from request')
    else if (behaviour.kind === 'refuse' && (behaviour.method ?? method) === method)
      refuse(stream, behaviour.code, behaviour.details)
    else if (behaviour.kind === 'bytes') stream.write(behaviour.bytes)
    else if (behaviour.kind !== 'silent') this.#push(method, stream)
  }

  #push(method: WorkloadMethod, stream: Stream): void {
    this.#streams.set(stream, method)
    for (const end of ['cancelled', 'close', 'finish']) stream.on(end, () => this.#streams.delete(stream))
    this.#write(method, stream)
  }

  #write(method: WorkloadMethod, stream: Stream): void {
    this.sent++
    stream.write(method === 'FetchX509SVID' ? this.#svids : this.#bundles)
  }
}

/** New keys and certificates of the CA for `identities`, with its roots. */
export async function svidsOf(
  ca: FakeCA,
  identities: readonly SpiffeId[],
  ttlSeconds = 3600,
): Promise<readonly GivenSvid[]> {
  return await Promise.all(
    identities.map(async identity => {
      const { chain, privateKey } = await ca.bring(identity, ttlSeconds)
      return { identity, chain, privateKey, roots: ca.trustBundle() }
    }),
  )
}

function refuse(stream: Stream, code: status, details = 'refused'): void {
  stream.emit('error', { code, details })
}

function toDer(pems: readonly string[]): Buffer {
  return Buffer.concat(pems.map(pemToDer))
}
