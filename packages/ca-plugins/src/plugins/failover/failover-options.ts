/** What the parts of the `failover` plugin share. */
import type { CAMember, Clock } from '@livery/core/plugin'

/** A change of a breaker; `forMs`: how long the CA gets no calls; `reason`: how the last one ended. */
export type BreakerChange =
  | { readonly kind: 'open'; readonly forMs: number; readonly reason: string }
  | { readonly kind: 'half-open' }
  | { readonly kind: 'closed' }

export interface FailoverOptions {
  /** The most preferred first. */
  readonly members: readonly CAMember[]
  readonly clock: Clock
  /** How long one CA may take, milliseconds; a CA that waits for an approval has the time of the request. */
  readonly timeoutMs: number
  /** Failures in a row after which a CA gets no calls. */
  readonly failures: number
  /** How long a CA gets no calls at first, and at most, milliseconds. */
  readonly openMs: number
  readonly maxOpenMs: number
  /** How long a renewal waits for the first CA, milliseconds: at most half of the life left at the first failure, which is the default. */
  readonly afterMs?: number
  /** A PEM file with roots that are always served. */
  readonly rootsFile?: string
  /** How often the file, and a CA that reports no changes, are read again, milliseconds. Default: five minutes. */
  readonly rootsPollMs?: number
  readonly onBreaker: (member: CAMember, change: BreakerChange) => void
  /** Called when a CA other than the first has issued. */
  readonly onTakenOver: (member: CAMember) => void
}
