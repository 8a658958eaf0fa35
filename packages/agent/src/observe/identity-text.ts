/** The state of an identity in words, the same for every reader of the admin endpoint. */
import type { IdentityState } from '@livery/core'

/** The states of {@link IdentityState}: `Initializing`, `Available`, `Renewing`, `Failing`, `Expired`, `Idle`, `Forgotten`. */
export type StateName = Capitalize<IdentityState>

const STATE_NAMES = {
  initializing: 'Initializing',
  available: 'Available',
  renewing: 'Renewing',
  failing: 'Failing',
  expired: 'Expired',
  idle: 'Idle',
  forgotten: 'Forgotten',
} as const satisfies Readonly<Record<IdentityState, StateName>>

/** The spelling follows ztunnel's states. */
export function stateName<State extends IdentityState>(state: State): (typeof STATE_NAMES)[State] {
  return STATE_NAMES[state]
}
