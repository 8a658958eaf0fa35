/** Work under way outside of `decide`: calls to the CA, and reads from the disk. */

import type { RestoreSource } from '../../src/decide/step.ts'
import type { Identity } from '../../src/state/identity.ts'

/** One call to the CA. Times are milliseconds since the epoch. */
export interface Flight {
  answerAt: number
  deadlineAt: number
  readonly sentIdleMs: number
  abortedWith: Error | undefined
}

export interface Read {
  readonly identity: Identity
  readonly from: RestoreSource
  at: number
}

/** When it ends without the driver. */
export function endOf({ answerAt, deadlineAt, abortedWith }: Flight): number {
  return abortedWith ? Number.NEGATIVE_INFINITY : Math.min(answerAt, deadlineAt)
}
