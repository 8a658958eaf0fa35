/** The messages of `istio.v1.auth.IstioCertificateService` as bytes, for its client and its server. */
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import type { ServiceDefinition } from '@grpc/grpc-js'
import { splitCertificates } from '@livery/core/plugin'
import { type Answer, badAnswer, ChainReader, type SplitChain } from '../answers/certificate-chain.ts'
import { IstioCertificateRequest, IstioCertificateResponse } from '../gen/istio/v1/auth/ca.ts'

export const CREATE_CERTIFICATE = '/istio.v1.auth.IstioCertificateService/CreateCertificate'

/** Metadata field of a request: the identity that a node's agent asks for on behalf of a workload. */
export const IMPERSONATED_IDENTITY = 'ImpersonatedIdentity'
/** Metadata field of a request: the signer that the CA should use. */
export const CERT_SIGNER = 'CertSigner'

export const istioCertificateService = {
  createCertificate: {
    path: CREATE_CERTIFICATE,
    requestStream: false,
    responseStream: false,
    requestSerialize: encodeRequest,
    requestDeserialize: (bytes: Buffer): IstioCertificateRequest => IstioCertificateRequest.decode(bytes),
    responseSerialize: encodeResponse,
    responseDeserialize: (bytes: Buffer): IstioCertificateResponse => IstioCertificateResponse.decode(bytes),
  },
} satisfies ServiceDefinition

/** Reuses memory between requests: fresh pieces for each would cost more than the encoding. */
let writer = new BinaryWriter()

export function encodeRequest(request: IstioCertificateRequest): Buffer {
  try {
    const { buffer, byteOffset, byteLength } = IstioCertificateRequest.encode(request, writer).finish()
    return Buffer.from(buffer, byteOffset, byteLength)
  } catch (error) {
    // The old writer holds a part of this request.
    writer = new BinaryWriter()
    throw error
  }
}

export function encodeResponse(response: IstioCertificateResponse): Buffer {
  return Buffer.from(IstioCertificateResponse.encode(response).finish())
}

/** The text of a metadata field, or `undefined` if it is absent or not text. */
export function metadataText({ metadata }: IstioCertificateRequest, name: string): string | undefined {
  return metadata?.fields.get(name)?.kind?.value
}

/** Field 1 of `IstioCertificateResponse`, of wire type 2: https://protobuf.dev/programming-guides/encoding/#structure */
const CERT_CHAIN = 10

/** Room for ten large certificates. */
const MAX_KNOWN_BYTES = 65_536

interface Issuers extends SplitChain {
  /** The answer after its first certificate, as received. */
  readonly bytes: Buffer
}

/** Reads answers: nearly all of them end in the same issuers, which are read once. */
export class ResponseReader {
  readonly #chains = new ChainReader(true)
  /** The issuers of the last answer whose first element held the leaf alone. */
  #issuers: Issuers | undefined

  /** Throws a `CAError` `bad-response`. */
  read(bytes: Buffer, answer: Answer): SplitChain {
    const first = firstElement(bytes)
    const [leaf, ...more] = first ? splitCertificates(bytes.toString('utf8', first.start, first.end)) : []
    if (!first || leaf === undefined || more.length > 0) return this.#chains.read(decode(bytes, answer), answer)
    const rest = bytes.subarray(first.end)
    const known = this.#issuers
    if (known?.bytes.equals(rest)) return { chain: [leaf, ...known.chain], roots: known.roots }
    const { chain, roots } = this.#chains.read(decode(bytes, answer), answer)
    // A copy, so that the rest of the answer is freed.
    if (rest.length <= MAX_KNOWN_BYTES) this.#issuers = { bytes: Buffer.from(rest), chain: chain.slice(1), roots }
    return { chain, roots }
  }
}

/** The position of the first certificate's text, if it comes first, whole, and with a plausible length: 128 B to 16 kB. */
function firstElement(bytes: Buffer): { readonly start: number; readonly end: number } | undefined {
  const [tag, low = 0, high = 0] = bytes
  const start = 3
  const end = start + (low & 0x7f) + (high << 7)
  return tag === CERT_CHAIN && low >= 0x80 && high < 0x80 && end <= bytes.length ? { start, end } : undefined
}

function decode(bytes: Buffer, answer: Answer): readonly string[] {
  try {
    return IstioCertificateResponse.decode(bytes).certChain
  } catch (error) {
    throw badAnswer(answer, 'is not an IstioCertificateResponse', error)
  }
}
