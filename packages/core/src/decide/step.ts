/** One event being decided: the state that it may change, the time, and the actions that follow so far. */

import type { SecretEvent } from '../contract/secret-event.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Identity, Issued } from '../state/identity.ts'
import type { State } from '../state/state.ts'
import type { RetryPolicy } from '../time/backoff.ts'
import type { RootTimes } from '../trust/settle-time.ts'
import type { Action } from './event.ts'
import type { RotationPolicy } from './renewal-time.ts'

/** Settings and verdicts that stay the same while the process runs. */
export interface Policy {
  readonly rotation: RotationPolicy &
    Omit<RootTimes, 'overlapMs'> & {
      /** How long an announcement waits for silent clients. */
      readonly ackWaitMs: number
    }
  /** Whether a root that is missing from the CA's list is revoked. */
  readonly revokesMissingRoots: boolean
  readonly retry: RetryPolicy
  readonly maxIdentities: number
  readonly removalGraceMs: number
  /** Returns a number in [0, 1). */
  readonly random: () => number
  /** See {@link Identity.slot}. */
  readonly slotOf: (id: SpiffeId) => number
  /** Why clients would refuse the certificate with the roots served now. */
  readonly refusalOf: (issued: Issued, id: SpiffeId, now: number) => string | undefined
}

export interface Step {
  readonly state: State
  readonly policy: Policy
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly actions: Action[]
}

export function report({ actions }: Step, name: string, event: SecretEvent): void {
  actions.push({ kind: 'report', name, event })
}

/** An event of the agent's trust domain. */
export function reportForAll(step: Step, event: SecretEvent): void {
  report(step, `spiffe://${step.state.trustDomain}`, event)
}
