/** The facts of a pod that its identity depends on, and the table of this node's pods. */
import type { Events } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import type { PodFacts } from '../config/identity-template.ts'

export interface Pod extends PodFacts {
  /** Made by the configured template; `undefined` if the pod is not chosen, or the template cannot be filled. */
  readonly identity: SpiffeId | undefined
  /** The DNS names from the configured templates, for the certificate of its identity. */
  readonly dnsNames: readonly string[]
}

/** The pods that have not ended; a terminating pod stays until it is gone. */
export interface PodTable {
  get(uid: string): Pod | undefined
  all(): Iterable<Pod>
  /** Reported after the table has changed. */
  readonly changes: Events<PodChange>
}

/** `pod` is its current state; a removed pod's is the last one. */
export interface PodChange {
  readonly kind: 'added' | 'changed' | 'removed'
  readonly pod: Pod
}
