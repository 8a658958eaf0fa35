/** Knowledge about the CA: its capacity, whether it answers, which failures many identities share. */

import type { FailureKind } from '../contract/ca-failure.ts'
import { CongestionWindow } from './congestion-window.ts'
import type { Identity } from './identity.ts'
import { SharedFault } from './shared-fault.ts'

export interface CAHealth {
  readonly window: CongestionWindow
  /** Open while the CA answers nobody. */
  readonly absence: SharedFault
  /** The CA has asked for a rest, or needs one. `since` and `until` outlive it. */
  pause: { readonly since: number; readonly until: number; readonly isOver: boolean }
  /** The number of refusals in a row for lack of room. */
  roomRefusals: number
  /** The number of the clock jump after which the CA's roots must be asked for first. */
  awaitsRoots: number | undefined
  jumps: number
  /** Keyed by kind of failure, so bounded by the number of codes. */
  readonly shared: Map<FailureKind, SharedRefusal>
  /** When the newest certificate was asked for. */
  lastCertificateAskedAt: number
}

/** Failures that many identities share though there is a CA. */
export interface SharedRefusal {
  readonly fault: SharedFault
  /** An identity has failed this way since all were last told to ask again. */
  hasSleepers: boolean
  /** The last probe was for an identity without a certificate: the next one is in turn among all. */
  wasUrgent: boolean
  /** The next probe is for it: somebody waits. */
  waitedFor: Identity | undefined
}

/** `concurrency`: the most requests in flight. */
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
