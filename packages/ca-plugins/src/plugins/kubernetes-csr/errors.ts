/** What went wrong between the plugin and the API server, as a {@link CAError} that says what to do and carries no secret. */
import { CAError, type CAErrorCode } from '@livery/core'
import { reasonOf } from '../../answers/reason.ts'
import { scrub } from '../../answers/scrub.ts'

/** One kind of call, for messages. */
export interface Doing {
  /** After "Cannot": `create the request livery-1a2b for spiffe://…`. */
  readonly what: string
  readonly verb: 'create' | 'get' | 'list' | 'watch'
  readonly resource: 'certificatesigningrequests' | 'clustertrustbundles'
}

interface Where {
  readonly server: string
  /** The tokens that must not come back in a message. */
  readonly secrets: readonly string[]
}

/** An answer that is no success, as the library throws it. */
interface Answer {
  readonly code: number
  readonly body: unknown
  readonly headers: Readonly<Record<string, string | undefined>>
}

/** The connection broke before the answer: what was asked may have been done. */
export class NoAnswer extends CAError {}

/** The parts of a `Status` (meta.k8s.io/v1) that are used here. */
interface Status {
  readonly message: string
  readonly retryAfterSeconds: number | undefined
}

/** The HTTP status of a call that was answered with an error; `undefined` if it was not answered. */
export function statusOf(error: unknown): number | undefined {
  return asAnswer(error)?.code
}

/** `error` never becomes a `cause`: it has headers and texts unscrubbed. */
export function apiError(error: unknown, doing: Doing, { server, secrets }: Where): CAError {
  const about = `Cannot ${doing.what} at ${server}`
  const answer = asAnswer(error)
  if (!answer) return connectionError(error, about, secrets)
  const status = readStatus(answer.body)
  const text = scrub(status.message, secrets)
  const code = codeOf(answer.code, text)
  const retryAfterMs = retryAfter(answer, status)
  return new CAError(
    code,
    `${about}: HTTP ${answer.code}${text && `: ${text}`}. ${remedyOf(answer.code, code, text, doing)}`,
    {
      ...(code === 'unavailable' && answer.code < 500 && { retryable: false }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    },
  )
}

/** A refusal in words alone: of a signer, or of an event of a watch. */
export function isAboutLifetime(text: string): boolean {
  return /expirationSeconds|lifetime|validity|duration|\bttl\b/i.test(text)
}

function connectionError(error: unknown, about: string, secrets: readonly string[]): CAError {
  const isNetwork = error instanceof TypeError && /^(fetch failed|terminated)$/.test(error.message)
  const reason = scrub(reasonOf(error), secrets)
  if (isNetwork)
    return new NoAnswer(
      'unavailable',
      `${about}: ${reason}. Check its address and roots, and the network; it is asked again.`,
    )
  return new CAError(
    'bad-response',
    `${about}: its answer cannot be read: ${reason}. Check that this is an API server.`,
  )
}

function asAnswer(error: unknown): Answer | undefined {
  if (!(error instanceof Error && 'code' in error && typeof error.code === 'number' && 'headers' in error))
    return undefined
  return { code: error.code, body: Object(error).body, headers: Object(error.headers) }
}

function readStatus(body: unknown): Status {
  const text = typeof body === 'string' ? body : ''
  try {
    const { message, details } = Object(JSON.parse(text))
    const seconds: unknown = Object(details).retryAfterSeconds
    return {
      message: typeof message === 'string' ? message : '',
      retryAfterSeconds: typeof seconds === 'number' && seconds > 0 ? seconds : undefined,
    }
  } catch {
    // A proxy, or the server before it knows its API, answers in plain text.
    return { message: text, retryAfterSeconds: undefined }
  }
}

function retryAfter({ headers }: Answer, { retryAfterSeconds }: Status): number | undefined {
  const seconds = /^\d{1,6}$/.test(headers['retry-after'] ?? '') ? Number(headers['retry-after']) : retryAfterSeconds
  return seconds === undefined ? undefined : seconds * 1000
}

function codeOf(httpStatus: number, text: string): CAErrorCode {
  switch (httpStatus) {
    case 401:
      return 'unauthenticated'
    case 403:
      return 'denied'
    case 400:
    case 413:
    case 422:
      return isAboutLifetime(text) ? 'ttl-too-long' : 'invalid-csr'
    case 408:
    case 504:
      return 'timeout'
    case 429:
      return 'rate-limited'
    default:
      return 'unavailable'
  }
}

function remedyOf(httpStatus: number, code: CAErrorCode, text: string, { verb, resource }: Doing): string {
  switch (code) {
    case 'unauthenticated':
      return 'Renew the token or the client certificate that Livery logs in with; it is read again.'
    case 'denied':
      return /admission|policy/i.test(text)
        ? 'Ask whoever keeps that policy, or change signerName, usages or ttl to what it allows.'
        : `Grant the verb ${verb} on ${resource} in certificates.k8s.io to this user by a ClusterRole.`
    case 'invalid-csr':
      return 'Set usages, signerName and keyType to what the API server and its admission allow.'
    case 'ttl-too-long':
      return 'Ask for a shorter ttl.'
    case 'rate-limited':
      return 'It is asked again later; give Livery a priority level of its own if this lasts.'
    case 'timeout':
      return 'It is asked again.'
    default:
      return httpStatus === 404 ? notFoundRemedy(resource) : 'It is asked again.'
  }
}

function notFoundRemedy(resource: Doing['resource']): string {
  return resource === 'clustertrustbundles'
    ? 'Create the ClusterTrustBundle, and see that the API server serves certificates.k8s.io/v1beta1; or use signerRoots.'
    : 'Check that this is an API server that serves certificates.k8s.io/v1 (Kubernetes 1.22 or later).'
}
