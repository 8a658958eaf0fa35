/** Failures between a client and the API server, as a {@link CAError} that says what to do and contains no secret. */
import type { IncomingHttpHeaders } from 'node:http'
import { CAError, type CAErrorCode } from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { reasonOf } from '../answers/reason-of.ts'
import { scrub } from '../answers/scrub.ts'

/** One kind of call, for messages. */
export interface ApiCall {
  /** Follows "Cannot" in the message: `create the request livery-1a2b for spiffe://…`. */
  readonly what: string
  readonly verb: 'create' | 'get' | 'list' | 'watch'
  readonly resource: keyof typeof RESOURCES
}

/** Resources by their RBAC names, with the remedy where the server does not know them. */
const RESOURCES = {
  certificatesigningrequests: {
    group: 'certificates.k8s.io',
    notFound: 'Check that this is an API server that serves certificates.k8s.io/v1 (Kubernetes 1.22 or later)',
  },
  clustertrustbundles: {
    group: 'certificates.k8s.io',
    notFound:
      'Create the ClusterTrustBundle, and see that the API server serves it in certificates.k8s.io/v1 or v1beta1; or use signerRoots',
  },
  pods: { group: '', notFound: 'Check that this is an API server' },
  secrets: { group: '', notFound: 'Check that this is an API server' },
  'serviceaccounts/token': {
    group: '',
    notFound: 'Check that the service account exists, and that the pod is not gone; it is asked again',
  },
  tokenreviews: {
    group: 'authentication.k8s.io',
    notFound: 'Check that this is an API server that serves authentication.k8s.io/v1',
  },
} as const

/** An answer of the API server. */
interface ApiAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** The connection broke before the answer: the server may have carried out the call. */
export class NoAnswer extends CAError {}

/** The answer exceeds the limit on bytes, pieces or values. */
export class AnswerTooLarge extends CAError {}

/** The parts of a `Status` (meta.k8s.io/v1) that are used here. */
interface Status {
  readonly message: string
  readonly retryAfterSeconds: number | undefined
}

/** `secrets` are the tokens that must not appear in a message. */
export function caErrorOfAnswer(answer: ApiAnswer, call: ApiCall, server: string, secrets: readonly string[]): CAError {
  const status = readStatus(answer.text)
  const text = scrub(status.message, secrets)
  const code = codeOf(answer.status, text, call)
  return caError(code, {
    action: `${call.what} at ${server}`,
    reason: `HTTP ${answer.status}${text && `: ${text}`}`,
    remedy: remedyOf(answer.status, code, text, call),
    retryable: code === 'unavailable' && answer.status < 500 ? false : undefined,
    retryAfterMs: retryAfter(answer, status),
  })
}

export function noAnswer(error: unknown, call: ApiCall, server: string, secrets: readonly string[]): NoAnswer {
  const reason = scrub(reasonOf(error), secrets)
  return new NoAnswer(
    'unavailable',
    `Cannot ${call.what} at ${server}: ${reason}. Check its address and roots, and the network; it is asked again.`,
  )
}

/** `reason` follows "its answer cannot be read". */
export function unreadable(reason: string, call: ApiCall, server: string): CAError {
  return caError('bad-response', {
    action: `${call.what} at ${server}`,
    reason: `its answer cannot be read: ${reason}`,
    remedy: 'Check that this is an API server',
  })
}

export function answerTooLarge(bounds: string, call: ApiCall, server: string): AnswerTooLarge {
  return new AnswerTooLarge(
    'bad-response',
    `Cannot ${call.what} at ${server}: its answer cannot be read: it has more than ${bounds}. Check that this is an API server.`,
  )
}

/** Signers and watch events give a refusal in words alone. */
export function isAboutLifetime(text: string): boolean {
  return /expirationSeconds|lifetime|validity|duration|\bttl\b/i.test(text)
}

function readStatus(text: string): Status {
  try {
    const { message, details } = Object(JSON.parse(text))
    const seconds: unknown = Object(details).retryAfterSeconds
    return {
      message: typeof message === 'string' ? message : '',
      retryAfterSeconds: typeof seconds === 'number' && seconds > 0 ? seconds : undefined,
    }
  } catch {
    // A proxy, or a server that does not know its API yet, answers in plain text.
    return { message: text, retryAfterSeconds: undefined }
  }
}

function retryAfter({ headers }: ApiAnswer, { retryAfterSeconds }: Status): number | undefined {
  const seconds = /^\d{1,6}$/.test(headers['retry-after'] ?? '') ? Number(headers['retry-after']) : retryAfterSeconds
  return seconds === undefined ? undefined : seconds * 1000
}

function codeOf(httpStatus: number, text: string, { resource }: ApiCall): CAErrorCode {
  switch (httpStatus) {
    case 401:
      return 'unauthenticated'
    case 403:
      return 'denied'
    case 400:
    case 413:
    case 422:
      if (resource !== 'certificatesigningrequests') return 'unavailable'
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

function remedyOf(httpStatus: number, code: CAErrorCode, text: string, { verb, resource }: ApiCall): string {
  switch (code) {
    case 'unauthenticated':
      return 'Renew the token or the client certificate that Livery logs in with; it is read again'
    case 'denied':
      return /admission|policy/i.test(text)
        ? 'Ask the owner of that policy, or change signerName, usages or ttl to what it allows'
        : `Grant the verb ${verb} on ${inGroup(resource)} to this user by a ${resource === 'secrets' ? 'Role of that namespace' : 'ClusterRole'}`
    case 'invalid-csr':
      return 'Set usages, signerName and keyType to what the API server and its admission allow'
    case 'ttl-too-long':
      return 'Ask for a shorter ttl'
    case 'rate-limited':
      return 'Livery retries later; give it a separate priority level if this lasts'
    case 'timeout':
      return 'It is asked again'
    default:
      return httpStatus === 404 ? RESOURCES[resource].notFound : 'It is asked again'
  }
}

function inGroup(resource: ApiCall['resource']): string {
  const { group } = RESOURCES[resource]
  return group === '' ? resource : `${resource} in ${group}`
}
