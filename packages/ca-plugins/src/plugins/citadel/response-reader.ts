/** Reads the answers of Istio's CA: nearly all of them end in the same issuers, which become text once. */
import { type Answer, badAnswer } from '../../answers/certificate-chain.ts'
import { IstioCertificateResponse } from '../../gen/istio/v1/auth/ca.ts'

/** Field 1 of `IstioCertificateResponse`, of wire type 2: https://protobuf.dev/programming-guides/encoding/#structure */
const CERT_CHAIN = 10

/** Room for ten large certificates. */
const MAX_KNOWN_BYTES = 65_536

interface Issuers {
  /** The answer after its first certificate, as received. */
  readonly bytes: Buffer
  readonly certChain: readonly string[]
}

export class ResponseReader {
  /** The issuers of the last answer. */
  #issuers: Issuers | undefined

  /** The elements of `cert_chain`. Throws a `CAError` `bad-response`. */
  certChain(bytes: Buffer, answer: Answer): readonly string[] {
    const first = firstElement(bytes)
    const rest = first && bytes.subarray(first.end)
    if (first && rest && this.#issuers?.bytes.equals(rest))
      return [bytes.toString('utf8', first.start, first.end), ...this.#issuers.certChain]
    const certChain = decode(bytes, answer)
    // A copy, so that the rest of the answer is freed.
    if (rest && rest.length <= MAX_KNOWN_BYTES)
      this.#issuers = { bytes: Buffer.from(rest), certChain: certChain.slice(1) }
    return certChain
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
