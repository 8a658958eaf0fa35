/** What is known of the CA: how much it takes, whether it answers, which failures many identities share. */

import type { FailureKind } from '../contract/ca-failure.ts'
import { CongestionWindow } from './congestion-window.ts'
import type { Identity } from './identity.ts'
import { SharedFault } from './shared-fault.ts'

export interface CAHealth {
  readonly window: CongestionWindow
  /** There is no CA. */
  readonly absence: SharedFault
  /** The CA has asked for a rest, or needs one. `since` and `until` outlive it. */
  pause: { readonly since: number; readonly until: number; readonly isOver: boolean }
  /** Refusals for want of room in a row. */
  roomRefusals: number
  /** The clock has jumped: the CA's roots are asked for before anything else. The number of the jump. */
  awaitsRoots: number | undefined
  jumps: number
  /** By what they failed with; no more than there are codes. */
  readonly shared: Map<FailureKind, SharedRefusal>
  /** When the newest certificate was asked for. */
  lastCertificateAskedAt: number
}

/** Failures that many identities share though there is a CA. */
export interface SharedRefusal {
  readonly fault: SharedFault
  /** Somebody has failed so since the last wake. */
  hasSleepers: boolean
  /** The last probe was for one that has no certificate: the next one takes its turn among all. */
  wasUrgent: boolean
  /** The next probe is for it: somebody waits. */
  waitedFor: Identity | undefined
}

/** `concurrency`: at most so many requests in flight. */
export function newCAHealth(concurrency: number): CAHealth {
  return {
    window: new CongestionWindow(concurrency),
    absence: new SharedFault('absence'),
    pause: { since: Number.NEGATIVE_INFINITY, until: Number.NEGATIVE_INFINITY, isOver: true },
    roomRefusals: 0,
    awaitsRoots: undefined,
    jumps: 0,
    shared: new Map(),
    lastCertificateAskedAt: Number.NEGATIVE_INFINITY,
  }
}
