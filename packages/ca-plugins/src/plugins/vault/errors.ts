/** A refusal of Vault or OpenBao as a {@link CAError} that says what to do, and carries no secret. */
import type { CAError, CAErrorCode, Clock } from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { scrub } from '../../answers/scrub.ts'
import { type JsonAnswer, retryAfterOf } from '../../transport/https-json.ts'

interface FailedCall {
  /** Follows "Cannot" in the message: `get a certificate for … from …`. */
  readonly action: string
  readonly isLogin: boolean
  /** The tokens that must not appear in a message. */
  readonly secrets: readonly string[]
  /** The remedy for a rejected token. */
  readonly tokenRemedy: string
  readonly clock: Clock
}

interface Meaning {
  readonly code: CAErrorCode
  readonly remedy: string
  /** The error lasts until the configuration is fixed. */
  readonly lasting?: true
}

const WRONG_PLACE: Meaning = {
  code: 'unavailable',
  remedy: 'Check address, mount, role and namespace',
  lasting: true,
}
/** The server gives its reasons in words only: https://developer.hashicorp.com/vault/api-docs#error-response */
const REFUSED_REQUESTS: readonly (readonly [RegExp, Meaning])[] = [
  [/unknown role|unsupported path/i, WRONG_PLACE],
  [
    /\bTTL\b|notAfter/i,
    { code: 'ttl-too-long', remedy: 'Ask for a shorter ttl: the issuer ends before, or the role does not allow it' },
  ],
  [
    /common_name|require_cn/i,
    { code: 'denied', remedy: 'Set require_cn=false on the role: SVIDs have no common name' },
  ],
  [
    /alternative name|not allowed|not valid for this role/i,
    { code: 'denied', remedy: 'Let allowed_uri_sans of the role have this identity, as in spiffe://cluster.local/*' },
  ],
]

export function errorOfAnswer(answer: JsonAnswer, call: FailedCall): CAError {
  const text = scrub(errorsOf(answer), call.secrets)
  const { code, remedy, lasting } = meaningOf(answer.status, text, call)
  const retryAfterMs = retryAfterOf(answer, call.clock)
  return caError(code, {
    action: call.action,
    reason: `HTTP ${answer.status}${text && `: ${text}`}`,
    remedy,
    retryAfterMs,
    ...(lasting && { retryable: false }),
  })
}

function errorsOf({ json }: JsonAnswer): string {
  const errors = json?.['errors']
  return Array.isArray(errors) ? errors.filter(error => typeof error === 'string').join('; ') : ''
}

function meaningOf(status: number, text: string, { isLogin, tokenRemedy }: FailedCall): Meaning {
  // Any refusal of a login concerns the token or the role.
  if (isLogin && (status === 400 || status === 403)) return { code: 'unauthenticated', remedy: tokenRemedy }
  switch (status) {
    case 400:
      if (/missing client token/i.test(text)) return { code: 'unauthenticated', remedy: tokenRemedy }
      return (
        REFUSED_REQUESTS.find(([words]) => words.test(text))?.[1] ?? {
          code: 'invalid-csr',
          remedy: 'Use a key type that the role allows (key_type, key_bits)',
        }
      )
    case 403:
      return isAboutToken(text)
        ? { code: 'unauthenticated', remedy: tokenRemedy }
        : { code: 'denied', remedy: 'Give the token a policy with "update" on the path of the role' }
    case 404:
    case 405:
      return WRONG_PLACE
    case 429:
      return { code: 'rate-limited', remedy: 'Livery retries later; raise the quota if this lasts' }
    default:
      return { code: 'unavailable', remedy: unavailableRemedy(status, text) }
  }
}

/** An invalid token gets the bare words, or "invalid token" beside them; a token without the right gets a list of one error. */
function isAboutToken(text: string): boolean {
  return text === 'permission denied' || /(invalid|bad|missing client) token/i.test(text)
}

function unavailableRemedy(status: number, text: string): string {
  if (status >= 300 && status < 400) return 'This node sends elsewhere: set address to the active one'
  if (/sealed/i.test(text)) return 'Unseal the server; it is asked again'
  return 'See the log of the server; it is asked again'
}
