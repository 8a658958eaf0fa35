/** A gRPC client of the SPIFFE Workload API, as a workload uses it, with responses to be awaited one by one. */
import { X509Certificate } from 'node:crypto'
import { type Client, Metadata } from '@grpc/grpc-js'
import {
  JWTBundlesResponse,
  X509BundlesResponse,
  type X509SVID,
  X509SVIDRequest,
  X509SVIDResponse,
} from '../src/gen/spiffe/workload/workload.ts'
import { connectTo, ResponseStream } from './response-stream.ts'

export class WorkloadClient implements Disposable {
  readonly #client: Client

  constructor(path: string) {
    this.#client = connectTo(path)
  }

  svids(headers?: Metadata): ResponseStream<X509SVIDResponse> {
    return this.open('FetchX509SVID', X509SVIDResponse, headers)
  }

  bundles(headers?: Metadata): ResponseStream<X509BundlesResponse> {
    return this.open('FetchX509Bundles', X509BundlesResponse, headers)
  }

  jwtBundles(headers?: Metadata): ResponseStream<JWTBundlesResponse> {
    return this.open('FetchJWTBundles', JWTBundlesResponse, headers)
  }

  open<Response>(
    method: string,
    codec: { decode(bytes: Uint8Array): Response },
    headers = securityHeader(),
  ): ResponseStream<Response> {
    const call = this.#client.makeServerStreamRequest(
      `/SpiffeWorkloadAPI/${method}`,
      (request: X509SVIDRequest) => Buffer.from(X509SVIDRequest.encode(request).finish()),
      bytes => codec.decode(bytes),
      {},
      headers,
    )
    return new ResponseStream(call)
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
