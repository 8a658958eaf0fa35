/** The facts about the running agent from which the diagnosis follows. */
import type { BundleEntry, FileStore, RotationStatus, ScheduleStatus } from '@livery/core'
import type { Clock } from '@livery/core/plugin'

/** Where the agent is in its life. */
export type Phase = 'starting' | 'serving' | 'draining'

/** A socket as the SDS server sees it. */
export interface SocketStatus {
  readonly path: string
  /**
   * `waiting`: another process listens on the path. `superseded`: another process took the path, and this one serves the
   * connections that it had.
   */
  readonly state: 'listening' | 'waiting' | 'superseded' | 'closed'
  /** Why it is waiting, with the remedy. */
  readonly reason?: string
}

/** The state of the watch of this node's pods. */
export interface PodsStatus {
  /** Whether they have been listed. */
  readonly known: boolean
  /** Why that is not up to date. */
  readonly problem: string | undefined
}

/** All but the identities: cheap to ask for at each probe. */
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
  /** The lifetime that is asked for; `undefined` of a source that gives certificates which were signed earlier. */
  readonly requestedTtlMs: number | undefined
  /** Held by the process, and what its control group or the machine allows. */
  memory(): { readonly rssBytes: number; readonly limitBytes: number }
  rotations(): readonly RotationStatus[]
  bundles(): readonly BundleEntry[]
}

/** A client that rejected what it was sent. */
export interface Rejection {
  readonly client: string
  /** The name that it rejected. */
  readonly name: string
}
