/** The state of an identity in words, as every reader of the admin endpoint gets it. */
import type { IdentityState } from '@livery/core'

/** As {@link IdentityState} documents them: `Initializing`, `Available`, `Renewing`, `Failing`, `Expired`, `Idle`, `Forgotten`. */
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

/** Written as ztunnel writes its states. */
export function stateName<State extends IdentityState>(state: State): (typeof STATE_NAMES)[State] {
  return STATE_NAMES[state]
}
