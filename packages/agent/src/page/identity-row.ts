/** One identity as a row of the page. */
import type { IdentityEntry } from '@livery/core'
import { type Moment, preflightWarning, troubleOf } from '../diagnosis/identity-verdict.ts'
import { stateName } from '../observe/identity-text.ts'
import type { PageFailure, PageIdentity, PageIdentityState } from './state.ts'

export function identityRow(entry: IdentityEntry, moment: Moment): PageIdentity {
  const { identity, hold, secret, root, renewAt, receivedAt, preflight } = entry
  const failure = failureOf(entry)
  const trouble = troubleOf(entry, moment)
  return {
    name: identity,
    state: shownState(entry),
    hold,
    ...(secret && { notBefore: secret.notBefore, notAfter: secret.notAfter, serial: secret.serialNumber }),
    ...(secret && root && { root: root.fingerprint }),
    ...(renewAt !== undefined && { renewAt: Math.round(renewAt) }),
    ...(receivedAt !== undefined && { issuedAt: receivedAt }),
    ...(failure && { failure }),
    ...(preflight && { warning: preflightWarning(preflight) }),
    ...(trouble && { problem: trouble.cause, severity: trouble.severity }),
  }
}

/**
 * Equal for rows with the same content. It leaves out the next try if the queue sets it: while the CA is down, each probe
 * changes it for all rows, and the overview shows it.
 */
export function rowSignature(entry: IdentityEntry, moment: Moment): string {
  const { state, hold, secret, renewAt, lastFailure, preflight } = entry
  const planned = state === 'available' ? renewAt : ''
  const { cause, severity } = troubleOf(entry, moment) ?? {}
  return `${state} ${hold} ${secret?.serialNumber} ${planned} ${lastFailure?.at} ${preflight?.isServed} ${cause} ${severity}`
}

/** A held identity cannot be forgotten. */
function shownState({ state }: IdentityEntry): PageIdentityState {
  return state === 'forgotten' ? stateName('idle') : stateName(state)
}

function failureOf({ lastFailure, failingSince }: IdentityEntry): PageFailure | undefined {
  if (!lastFailure || failingSince === undefined) return undefined
  const { code, message, at } = lastFailure
  return { code, text: message, at, since: failingSince }
}
