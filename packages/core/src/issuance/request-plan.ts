/** When the next request of each identity is made: now, as its turn comes in the queue, or at a time that it waits for. */

import type { SecretEvent } from '../contract/secret-event.ts'
import type { ManagedIdentity, Reason, Urgency } from '../identity/managed-identity.ts'
import { backoff, type RetryPolicy } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import type { CAThrottle } from './ca-throttle.ts'
import { retryTime } from './renewal-time.ts'

export interface RequestPlanOptions {
  readonly clock: Clock
  readonly random: () => number
  readonly retry: RetryPolicy
  readonly throttle: Pick<CAThrottle<ManagedIdentity>, 'push'>
  readonly record: (name: string, event: SecretEvent) => void
}

/** Waits up to four times the shortest (2 s), and how many more of those a CA gets that does not know the identity yet: about 17 s. */
const SHORT_WAITS = 3
const MORE_SHORT_WAITS = 7

export class RequestPlan {
  readonly #options: RequestPlanOptions

  constructor(options: RequestPlanOptions) {
    this.#options = options
  }

  /** At `due`, milliseconds since the epoch, unless something else is done for it before. */
  wait(managed: ManagedIdentity, due: number, reason: Reason): void {
    managed.wait(due, () => {
      const first = reason === 'on-demand' ? reason : 'first'
      const urgency = managed.served.current ? 'renewal' : first
      this.enqueue(managed, reason, managed.hasFailedAlone ? 'retry' : urgency)
    })
  }

  /** As soon as the CA takes it. */
  enqueue(
    managed: ManagedIdentity,
    reason: Reason,
    urgency: Urgency = reason === 'new-root' ? 'renewal' : reason,
  ): void {
    const { throttle } = this.#options
    managed.queue(reason)
    // Identities that have failed take turns: one that the CA never answers must not come first each time.
    const deadline = urgency === 'retry' ? undefined : managed.served.current?.secret.notAfter
    throttle.push(managed, urgency, deadline)
  }

  /** Brings a planned request forward; one that is due earlier anyway stays so. */
  bringForward(managed: ManagedIdentity, due: number, reason: Reason): void {
    if (managed.activity.kind !== 'waiting' || due >= managed.activity.due) return
    this.wait(managed, due, reason)
  }

  /** After `delayMs`, or sooner if its certificate is running out. */
  retryAfter(managed: ManagedIdentity, delayMs: number): void {
    const { clock, retry, record } = this.#options
    const notAfter = managed.served.current?.secret.notAfter
    const due = retryTime({ now: clock.now(), notAfter }, delayMs, retry.minMs)
    record(managed.identity, { kind: 'retry-planned', at: due })
    this.wait(managed, due, managed.served.current ? 'renewal' : 'first')
  }

  /**
   * The wait after one more failure of this identity, milliseconds. `isNew`: the CA may be about to learn of it, as istiod
   * is of a pod that has just been scheduled, so the wait stays short at first.
   */
  ownBackoff(managed: ManagedIdentity, isNew = false): number {
    const failures = managed.countFailure()
    const counted = isNew ? Math.max(Math.min(failures, SHORT_WAITS), failures - MORE_SHORT_WAITS) : failures
    return backoff(counted, this.#options.retry, this.#options.random())
  }
}
