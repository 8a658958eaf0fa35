/** The running agent, as the page sees it. */
import type {
  BundleEntry,
  Clock,
  FileStore,
  IdentityEntry,
  KeyGenerator,
  RotationStatus,
  ScheduleStatus,
  SpiffeId,
} from '@livery/core'
import type { SdsServer } from '@livery/sds-server'
import type { LogScopes } from '../observe/log-scopes.ts'
import type { Phase, PodsStatus, SocketStatus } from '../observe/readiness.ts'

/** The running SDS server, as far as it is listed. */
export type StreamSource = Pick<SdsServer, 'sockets' | 'streams' | 'callers'>

export interface PageSource {
  readonly version: string
  readonly trustDomain: string
  readonly clock: Clock
  /** `ca.plugin` of the configuration. */
  readonly caPlugin: string
  /** The lifetime that is asked for; `undefined` of a source that gives certificates which were signed earlier. */
  readonly requestedTtlMs: number | undefined
  readonly keyGenerator: Pick<KeyGenerator, 'name'>
  readonly log: Pick<LogScopes, 'levels'>
  phase(): Phase
  sockets(): readonly SocketStatus[]
  /** Default: it does not serve yet. */
  sds?(): StreamSource | undefined
  /** Default: the configuration has no section `kubernetes`. */
  pods?(): PodsStatus | undefined
  /** Why the admin or the health endpoint does not listen, one line each. Default: both do. */
  endpointProblems?(): readonly string[]
  /** The namespace and name of the pod that a subject stands for. Default: no pods are known. */
  podOf?(subject: string): string | undefined
  identities(): Iterable<SpiffeId>
  entry(identity: string): IdentityEntry | undefined
  bundles(): readonly BundleEntry[]
  rotations(): readonly RotationStatus[]
  schedule(): ScheduleStatus
  plannedPerMinute(): readonly number[]
  /** How many connections were refused since the start. */
  refusedConnections(): Promise<number>
  /** The store on disk; `undefined` without one. */
  store(): Pick<FileStore, 'directory' | 'unwritten' | 'failure'> | undefined
  /** Calls `listener` with the name of each identity that has changed, and of other secrets. */
  onChange(listener: (name: string) => void): Disposable
}
