/** What the stand-in server asks the fake CA, what it is answered, and the answer in words. */
import type { SpiffeId } from '@livery/core/plugin'
import type { RefusalCode } from './fake-ca-fault.ts'

/** A request as the stand-in server has read it. */
export interface FakeCARequest {
  /** PKCS#10, as PEM or DER. */
  readonly csr: string | Uint8Array
  /** Default: an hour. */
  readonly ttlSeconds?: number
  /** Default: the URI that the CSR names. */
  readonly identity?: SpiffeId
  /** The bearer token of the request. */
  readonly token?: string
}

/** The answer that the stand-in server writes, in the form of its protocol. */
export type FakeCAAnswer =
  | {
      readonly kind: 'issued'
      /** PEM, one certificate an element: leaf first, no root, unless a fault wants it otherwise. */
      readonly chain: readonly string[]
      /** The root that the chain leads to. */
      readonly root: string
      /** Every root of the CA. */
      readonly roots: readonly string[]
      /** Send the first half of the answer's bytes, as if it were whole. */
      readonly truncated: boolean
    }
  | { readonly kind: 'refused'; readonly code: RefusalCode; readonly message: string; readonly retryAfterMs?: number }
  /** Ask again with `collect(id)`. */
  | { readonly kind: 'pending'; readonly id: string }
  /** Send this as if it were an answer. */
  | { readonly kind: 'garbage'; readonly text: string }
  /** Send piece after piece, each once the client has taken those before it, until the client leaves. */
  | { readonly kind: 'endless'; readonly pieces: Iterable<string> }
  /** Cut the connection. */
  | { readonly kind: 'reset' }

/** `requiredToken` is the only one that the CA accepts; `undefined` if it accepts each. */
export function answerInWords(
  answer: FakeCAAnswer,
  { token }: FakeCARequest,
  requiredToken: string | undefined,
): string {
  switch (answer.kind) {
    case 'issued':
      return `${answer.truncated ? 'half of ' : ''}a chain of ${answer.chain.length} certificates`
    case 'refused':
      return `the refusal "${answer.code}"${requiredToken === undefined || token === requiredToken ? '' : `: ${tokenProblem(token)}`}`
    case 'pending':
      return 'a ticket'
    case 'garbage':
      return `garbage: ${answer.text}`
    case 'endless':
      return 'an answer without end'
    case 'reset':
      return 'a cut connection'
  }
}

function tokenProblem(token: string | undefined): string {
  const what = token ? 'the token sent is not the one it requires' : 'no token was sent'
  return `${what}. The token comes from context.credentials.get({ tokenFile, signal }), with the request's tokenFile, at each call`
}
