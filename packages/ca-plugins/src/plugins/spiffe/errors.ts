/** Why the Workload API gave nothing, as a `CAError`. */
import { type ServiceError, status } from '@grpc/grpc-js'
import { CAError, type CAErrorCode } from '@livery/core/plugin'
import { scrub } from '../../answers/scrub.ts'
import type { StreamFailure } from './workload-stream.ts'

interface Meaning {
  readonly code: CAErrorCode
  readonly remedy: string
  readonly isFinal?: true
  readonly retryable?: false
}

const RUNS = 'Check the address, and that the agent of SPIRE (or what else serves the Workload API) runs'

const MEANINGS: Partial<Readonly<Record<status, Meaning>>> = {
  [status.PERMISSION_DENIED]: {
    code: 'denied',
    remedy: 'It has no identity for this process. Register one with selectors that match it, such as unix:uid',
  },
  [status.INVALID_ARGUMENT]: {
    code: 'bad-response',
    remedy: 'It takes the call for malformed: check that no proxy in between drops the header workload.spiffe.io',
    isFinal: true,
    retryable: false,
  },
  [status.UNIMPLEMENTED]: {
    code: 'bad-response',
    remedy: 'The server there is not a Workload API, or lacks the X.509-SVID profile: check the address',
    retryable: false,
  },
  [status.UNAUTHENTICATED]: { code: 'unauthenticated', remedy: 'It cannot identify this process' },
  [status.RESOURCE_EXHAUSTED]: { code: 'rate-limited', remedy: 'It is asked again' },
  [status.DEADLINE_EXCEEDED]: { code: 'timeout', remedy: RUNS },
}

/** `address`: the configured address of the Workload API. */
export function workloadFailure(address: string, what: string, cause: ServiceError | Error | undefined): StreamFailure {
  // The reader of the answer made the error.
  if (cause instanceof CAError) return { error: cause, isFinal: false }
  const { code, remedy, isFinal = false, ...options } = meaningOf(cause)
  const text = `Cannot get ${what} from the Workload API at ${address}: ${reasonOf(cause)}. ${remedy}.`
  return { error: new CAError(code, text, options), isFinal }
}

function meaningOf(cause: ServiceError | Error | undefined): Meaning {
  if (cause?.name === 'TimeoutError') return { code: 'timeout', remedy: RUNS }
  const meaning = cause && 'code' in cause ? MEANINGS[cause.code] : undefined
  return meaning ?? { code: 'unavailable', remedy: RUNS }
}

function reasonOf(cause: ServiceError | Error | undefined): string {
  if (!cause) return 'it ended the stream'
  if (!('code' in cause)) return scrub(cause.message, [])
  return `${status[cause.code] ?? cause.code}: ${scrub(cause.details, [])}`
}
