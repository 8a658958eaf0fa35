/** A pod of this node, as far as its identity depends on it, and the table of them. */
import type { Events } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import type { PodFacts } from '../config/identity-template.ts'

export interface Pod extends PodFacts {
  /** By the template of the configuration; `undefined` if the pod is not chosen, or the template cannot be filled. */
  readonly identity: SpiffeId | undefined
  /** The DNS names that the templates of the configuration make, for the certificate of its identity. */
  readonly dnsNames: readonly string[]
}

/** The pods that have not ended; one that terminates is among them until it is gone. */
export interface PodTable {
  get(uid: string): Pod | undefined
  all(): Iterable<Pod>
  /** Reported after the table has changed. */
  readonly changes: Events<PodChange>
}

/** `pod` is as it is now; a removed one as it was last. */
export interface PodChange {
  readonly kind: 'added' | 'changed' | 'removed'
  readonly pod: Pod
}
