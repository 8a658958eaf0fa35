/** A refusal of step-ca as a {@link CAError} that says what to do, and carries no secret. */
import type { CAError, CAErrorCode, Clock } from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { scrub } from '../../answers/scrub.ts'
import { type JsonAnswer, retryAfterOf } from '../../transport/https-json.ts'

interface FailedCall {
  /** Follows "Cannot" in the message: `get a certificate for … from …`. */
  readonly action: string
  /** The tokens that must not appear in a message. */
  readonly secrets: readonly string[]
  /** The remedy for a rejected token. */
  readonly tokenRemedy: string
  readonly clock: Clock
}

/** Statuses that last until the address is fixed. */
const LASTING: ReadonlySet<number> = new Set([404, 405, 501])

export function errorOfAnswer(answer: JsonAnswer, call: FailedCall): CAError {
  const { status, json } = answer
  const text = typeof json?.['message'] === 'string' ? scrub(json['message'], call.secrets) : ''
  const code = codeOf(status, text)
  const retryAfterMs = retryAfterOf(answer, call.clock)
  return caError(code, {
    action: call.action,
    reason: `HTTP ${status}${text && `: ${text}`}`,
    remedy: remedyOf(code, status, text, call),
    retryAfterMs,
    ...(code === 'unavailable' && LASTING.has(status) && { retryable: false }),
  })
}

/** The CA gives its reasons in words only: https://github.com/smallstep/certificates/tree/master/authority/provisioner */
function codeOf(status: number, text: string): CAErrorCode {
  switch (status) {
    case 400:
      return 'invalid-csr'
    case 401:
      return 'unauthenticated'
    case 403:
      if (/more than the authorized maximum|notAfter/i.test(text)) return 'ttl-too-long'
      return /certificate request/i.test(text) ? 'invalid-csr' : 'denied'
    case 429:
      return 'rate-limited'
    default:
      return 'unavailable'
  }
}

function remedyOf(code: CAErrorCode, status: number, text: string, { tokenRemedy }: FailedCall): string {
  switch (code) {
    case 'unauthenticated':
      return tokenRemedy
    case 'invalid-csr':
      return 'Use a key type that the CA accepts'
    case 'ttl-too-long':
      return 'Ask for a shorter ttl, or raise maxTLSCertDuration of the provisioner'
    case 'denied':
      return /less than the authorized minimum/i.test(text)
        ? 'Ask for a longer ttl, or lower minTLSCertDuration of the provisioner'
        : 'Let the policy and the template of the provisioner allow this identity'
    case 'rate-limited':
      return 'Livery retries later'
    default:
      return LASTING.has(status)
        ? 'Check that the address belongs to a step-ca'
        : 'See the log of the CA; it is asked again'
  }
}
