/** What an operator does about each kind of failure; the pages of the runbook say more. */

export type RunbookPage =
  | 'calls-refused'
  | 'ca-down'
  | 'certificate-expired'
  | 'certificate-not-renewed'
  | 'clock-skew'
  | 'identities-failing'
  | 'memory'
  | 'root-rotation-held'
  | 'secrets-rejected'
  | 'socket-not-served'
  | 'store-failing'

const BY_CODE: Readonly<Record<string, string>> = {
  unauthenticated:
    'The CA does not accept the token or the client certificate. Compare the audience and the end of the token with what the CA expects.',
  denied:
    'The CA knows the caller and does not allow this identity. Allow it at the CA, or take the identity out of the configuration.',
  'invalid-csr': 'The CA does not take the request. Compare keyType with what the CA allows.',
  'ttl-too-long': 'The CA does not issue for so long. Set ttl to what the CA gives.',
  'rate-limited': 'The CA has too many requests. Raise its limit, or lower concurrency.',
  unavailable: 'The CA does not answer. Look at the CA, and at the way to it.',
  timeout: 'The CA does not answer in time. Look at the CA, and at the way to it.',
  'bad-response':
    'The answer of the CA failed a check: key, name, dates or chain. Find out who answered before you change anything.',
}

/** The remedy for a failure of this code. */
export function remedyOf(code: string): string {
  return BY_CODE[code] ?? 'The text of the failure says what the CA objects to.'
}

const UNREACHABLE: ReadonlySet<string> = new Set(['unavailable', 'timeout'])

/** Whether it is the CA that is away, and not this identity that is refused. */
export function isUnreachable(code: string): boolean {
  return UNREACHABLE.has(code)
}
