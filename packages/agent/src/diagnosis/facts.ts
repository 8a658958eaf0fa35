/** The facts about the running agent from which the diagnosis follows. */
import type { BundleEntry, FileStore, RotationStatus, ScheduleStatus } from '@livery/core'
import type { Clock } from '@livery/core/plugin'

/** Where the agent is in its life. */
export type Phase = 'starting' | 'serving' | 'draining'

/** A socket as the SDS server sees it. */
export interface SocketStatus {
  readonly path: string
  /**
   * `waiting`: another process listens on the path. `superseded`: another process took the path, and this one serves its
   * existing connections.
   */
  readonly state: 'listening' | 'waiting' | 'superseded' | 'closed'
  /** Why it is waiting, with the remedy. */
  readonly reason?: string
}

/** The state of the watch of this node's pods. */
export interface PodsStatus {
  /** Whether the pods have been listed. */
  readonly known: boolean
  /** Why the list is out of date. */
  readonly problem: string | undefined
}

/** Everything except the identities: cheap enough for each probe. */
export interface AgentSource {
  readonly clock: Clock
  phase(): Phase
  sockets(): readonly SocketStatus[]
  /** Default: the configuration has no section `kubernetes`. */
  pods?(): PodsStatus | undefined
  /** Why the admin or the health endpoint does not listen, one line each. Default: both do. */
  endpointProblems?(): readonly string[]
  schedule(): ScheduleStatus
  /** The store on disk; `undefined` without one. */
  store(): Pick<FileStore, 'directory' | 'unwritten' | 'failure' | 'behindSince'> | undefined
  /** The requested lifetime; `undefined` for a source that gives certificates which were signed earlier. */
  readonly requestedTtlMs: number | undefined
  /** Resident memory of the process, and the limit of its control group or the machine. */
  memory(): { readonly rssBytes: number; readonly limitBytes: number }
  rotations(): readonly RotationStatus[]
  bundles(): readonly BundleEntry[]
}

/** A client that rejected a secret. */
export interface Rejection {
  readonly client: string
  /** The rejected name. */
  readonly name: string
}
