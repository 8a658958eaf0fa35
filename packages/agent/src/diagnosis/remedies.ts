/** The remedy for each kind of failure; the pages of the runbook say more. */
import { counted } from './problem-text.ts'

/** A page of docs/run/runbook. */
export type RunbookPage =
  | 'calls-refused'
  | 'ca-down'
  | 'certificate-expired'
  | 'certificate-not-renewed'
  | 'certificate-revoked'
  | 'clock-skew'
  | 'identities-failing'
  | 'memory'
  | 'root-rotation-held'
  | 'secrets-rejected'
  | 'socket-not-served'
  | 'store-failing'

const AWAY = 'Look at the CA, and at the way to it. Certificates in use stay in use until they end.'

const BY_CODE: Readonly<Record<string, string>> = {
  'ca-down': AWAY,
  absence: AWAY,
  unauthenticated:
    'The CA does not accept the token or the client certificate. If it did before, it may not reach what it checks tokens with (istiod: the API server). Else compare the audience and the end of the token, which livery doctor shows, with what the CA expects.',
  denied:
    'The CA knows the caller and does not allow this identity. Allow it at the CA, or take the identity out of the configuration.',
  'invalid-csr': 'The CA does not take the request. Compare keyType with what the CA allows.',
  'ttl-too-long': 'The CA does not issue for that long. Set ttl to what the CA gives.',
  'rate-limited': 'The CA has too many requests. Raise its limit, or lower concurrency.',
  unavailable: 'The CA does not answer. Look at the CA, and at the way to it.',
  timeout: 'The CA does not answer in time. Look at the CA, and at the way to it.',
  revoked:
    'The agent asks for another until one comes that no list names. If the list is right, have the CA sign with another of its certificates; otherwise correct the list.',
  'bad-response':
    'The answer of the CA failed a check: key, name, dates or chain. Find out who answered before you change anything.',
}

/** The remedy for this cause (a `FailureCause`, or `absence`); the CA issues to `issuedToOthers` identities meanwhile. */
export function remedyOf(cause: string, issuedToOthers: number): string {
  if (cause.startsWith('local ')) return 'The cause is on this node: correct the file or the setting that is named.'
  if (isRefusedAlone(cause, issuedToOthers))
    return `The CA issues for ${counted(issuedToOthers, 'other')}, so the token that all share is fine: it refuses only what fails here. Check that the CA allows this identity: a pod with this service account runs on this node, and no policy of the CA excludes it. If the identity has its own tokenFile, that token has to be for it.`
  return BY_CODE[cause] ?? 'The text of the failure says what the CA objects to.'
}

/** Whether the CA refuses only these identities, so that the shared token is fine. */
export function isRefusedAlone(cause: string, issuedToOthers: number): boolean {
  return cause === 'unauthenticated' && issuedToOthers > 0
}
