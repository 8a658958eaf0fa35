/** A pod of this node, as far as its identity depends on it, and the table of them. */
import type { Events, SpiffeId } from '@livery/core'

export interface Pod {
  /**
   * The UID by which the node knows it: in the names of its cgroups and in its own downward API. For the mirror of a static
   * pod that is the hash which kubelet gave the static pod, not the UID of the API server's object.
   */
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** Empty for the mirror of a static pod: the API server lets it have none. */
  readonly serviceAccount: string
  readonly labels: ReadonlyMap<string, string>
  readonly annotations: ReadonlyMap<string, string>
  /** By the template of the configuration; `undefined` if the pod is not chosen, or the template cannot be filled. */
  readonly identity: SpiffeId | undefined
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
