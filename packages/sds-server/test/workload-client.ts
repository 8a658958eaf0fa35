/** A gRPC client of the SPIFFE Workload API, as a workload uses it, with responses to be awaited one by one. */
import { X509Certificate } from 'node:crypto'
import { Client, type ClientReadableStream, credentials, Metadata, type StatusObject } from '@grpc/grpc-js'
import {
  X509BundlesResponse,
  type X509SVID,
  X509SVIDRequest,
  X509SVIDResponse,
} from '../src/gen/spiffe/workload/workload.ts'

export class WorkloadClient implements Disposable {
  readonly #client: Client

  constructor(path: string) {
    this.#client = new Client(`unix:${path}`, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 })
  }

  svids(headers?: Metadata): WorkloadClientStream<X509SVIDResponse> {
    return this.open('FetchX509SVID', X509SVIDResponse, headers)
  }

  bundles(headers?: Metadata): WorkloadClientStream<X509BundlesResponse> {
    return this.open('FetchX509Bundles', X509BundlesResponse, headers)
  }

  open<Response>(
    method: string,
    codec: { decode(bytes: Uint8Array): Response },
    headers = securityHeader(),
  ): WorkloadClientStream<Response> {
    const call = this.#client.makeServerStreamRequest(
      `/SpiffeWorkloadAPI/${method}`,
      (request: X509SVIDRequest) => Buffer.from(X509SVIDRequest.encode(request).finish()),
      bytes => codec.decode(bytes),
      {},
      headers,
    )
    return new WorkloadClientStream(call)
  }

  [Symbol.dispose](): void {
    this.#client.close()
  }
}

export function securityHeader(...values: readonly string[]): Metadata {
  const headers = new Metadata()
  for (const value of values.length > 0 ? values : ['true']) headers.add('workload.spiffe.io', value)
  return headers
}

/** One stream: what arrives is queued until somebody asks for it. */
export class WorkloadClientStream<Response> {
  /** How the stream ended. */
  readonly status: Promise<StatusObject>
  readonly #call: ClientReadableStream<Response>
  readonly #received: Response[] = []
  readonly #waiting: PromiseWithResolvers<Response>[] = []

  constructor(call: ClientReadableStream<Response>) {
    this.#call = call
    this.status = new Promise(resolve => call.on('status', resolve))
    call.on('status', ({ code, details }) => {
      for (const waiter of this.#waiting) waiter.reject(new Error(`the stream ended with ${code}: ${details}`))
    })
    call.on('error', () => {}) // the status says it
    call.on('data', (response: Response) => {
      const waiter = this.#waiting.shift()
      if (waiter) waiter.resolve(response)
      else this.#received.push(response)
    })
  }

  /** How many responses nobody has taken yet. */
  get queued(): number {
    return this.#received.length
  }

  /** The next response; rejects if the stream ends before. */
  next(): Promise<Response> {
    const received = this.#received.shift()
    if (received !== undefined) return Promise.resolve(received)
    const waiter = Promise.withResolvers<Response>()
    this.#waiting.push(waiter)
    return waiter.promise
  }

  /** Stops reading, as a stopped process does: the window fills up. */
  pause(): void {
    this.#call.pause()
  }

  resume(): void {
    this.#call.resume()
  }

  cancel(): void {
    this.#call.cancel()
  }
}

/** The certificates that stand one after the other in `der`. */
export function certificatesOf(der: Buffer): readonly X509Certificate[] {
  const found: X509Certificate[] = []
  for (let at = 0; at < der.length; ) {
    const certificate = new X509Certificate(der.subarray(at))
    found.push(certificate)
    at += certificate.raw.length
  }
  return found
}

/** The leaf of the first SVID, and whether it is verified by a root of the bundle beside it. */
export function verified({ x509Svid, bundle }: X509SVID): {
  readonly leaf: X509Certificate
  readonly isVerified: boolean
} {
  const [leaf, ...issuers] = certificatesOf(x509Svid)
  if (!leaf) throw new Error('an SVID without a certificate')
  const isVerified = [...issuers, ...certificatesOf(bundle)].some(issuer => leaf.verify(issuer.publicKey))
  return { leaf, isVerified }
}
