/** The events that the agent reports about secrets, sockets, pods and its operator: one union, whose rows are in event-table.ts. */
import type { RootAction, SecretEvent } from '@livery/core'
import type { ConnectionInfo, SdsEvent, SocketFileEvent } from '@livery/sds-server'

/** The events of a secret, on its way here and on the streams that have it. */
export type LedgerEvent =
  | SecretEvent
  | { readonly kind: 'asked'; readonly by: string }
  | { readonly kind: 'refused'; readonly by: string; readonly reason: string }
  | { readonly kind: 'postponed'; readonly by: string; readonly reason: string }
  | { readonly kind: 'pushed'; readonly to: string; readonly version: string }
  | { readonly kind: 'acked'; readonly by: string; readonly version: string }
  | { readonly kind: 'nacked'; readonly by: string; readonly version: string; readonly detail: string }

/** Stream reports about a name are ledger events; a refused name beyond their rate is `refused-unnamed`. */
type ServerEvent =
  | Exclude<SdsEvent, { readonly kind: 'stream-report' }>
  | { readonly kind: 'refused-unnamed'; readonly connection: ConnectionInfo }

interface PodFields {
  readonly pod: string
  readonly podUid: string
  readonly identity: string | undefined
}

/** Events of the pods of this node. */
type PodEvent =
  | { readonly kind: 'pods-unknown'; readonly message: string | undefined }
  | { readonly kind: 'pods-away'; readonly message: string | undefined }
  | { readonly kind: 'pods-known'; readonly known: number; readonly chosen: number }
  | ({ readonly kind: 'pod-added' } & PodFields)
  | ({ readonly kind: 'pod-changed' } & PodFields)
  | ({ readonly kind: 'pod-removed' } & PodFields)
  | {
      readonly kind: 'pod-name-refused'
      readonly pod: string | undefined
      readonly dnsName: string
      readonly message: string
    }
  | { readonly kind: 'pod-refused'; readonly pod: string | undefined; readonly message: string }

interface EndpointFields {
  readonly endpoint: 'admin' | 'health'
  readonly address: string
}

/** `message`: why it was refused. */
interface RefusalFields {
  readonly uid: number | undefined
  readonly message: string
}

/** Events of the admin and health endpoints: one stops or resumes listening; a caller changed something, or was refused. */
export type AdminEvent =
  | ({ readonly kind: 'endpoint-waiting'; readonly message: string } & EndpointFields)
  | ({ readonly kind: 'endpoint-handover'; readonly message: string } & EndpointFields)
  | ({ readonly kind: 'endpoint-acquired' } & EndpointFields)
  | { readonly kind: 'admin-socket-disturbed'; readonly event: SocketFileEvent['kind']; readonly path: string }
  /** `by` is absent if the configuration changed it. */
  | { readonly kind: 'log-level-changed'; readonly to: string; readonly from: string; readonly by?: string }
  | ({ readonly kind: 'log-level-refused'; readonly to: string; readonly from: string } & RefusalFields)
  | { readonly kind: 'renewal-requested'; readonly resource: string; readonly by: string }
  | ({ readonly kind: 'renewal-refused' } & RefusalFields)
  | { readonly kind: 'root-change'; readonly action: RootAction; readonly root: string; readonly by: string }
  | ({ readonly kind: 'root-change-refused'; readonly action: RootAction; readonly root: string } & RefusalFields)

export type AgentEvent =
  | LedgerEvent
  | ServerEvent
  | PodEvent
  | AdminEvent
  /** The reader of the log was too slow. */
  | { readonly kind: 'log-lines-dropped'; readonly lines: number }

export type EventKind = AgentEvent['kind']

export type EventOf<Kind extends EventKind> = Extract<AgentEvent, { readonly kind: Kind }>
