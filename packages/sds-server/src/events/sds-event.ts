/** The events of the server. It logs nothing: the agent turns these into logs and metrics. */
import type { PeerCredentials } from '@livery/core'
import type { CallBound } from '../budget/caller-budget.ts'
import type { StreamReport } from '../protocol/discovery-protocol.ts'
import type { DescriptorShortage } from '../socket/descriptor-limit.ts'
import type { SocketFileEvent } from '../socket/socket-file.ts'

/** A connection to one of the sockets. */
export interface ConnectionInfo {
  /** Counted from 1 in this process. */
  readonly id: number
  /** The path of its socket. */
  readonly socket: string
  /** `undefined` if the server cannot read them. */
  readonly caller: PeerCredentials | undefined
  /** The caller, such as `pod 1234`, where the socket identifies callers. */
  readonly subject?: string
}

export type SdsMethod = 'StreamSecrets' | 'DeltaSecrets' | 'FetchSecrets'

/** The methods of the SPIFFE Workload API. */
export type WorkloadMethod =
  | 'FetchX509SVID'
  | 'FetchX509Bundles'
  | 'FetchJWTSVID'
  | 'FetchJWTBundles'
  | 'ValidateJWTSVID'

export type CallMethod = SdsMethod | WorkloadMethod

/** A stream, or a call of FetchSecrets. */
export interface StreamInfo {
  /** Counted from 1 in this process. */
  readonly id: number
  readonly method: CallMethod
  readonly connection: ConnectionInfo
  /** The peer's node id, escaped; empty until its first request, and on the Workload API. */
  readonly node: string
  /** How many names it is subscribed to. */
  readonly names: number
  /** Milliseconds since the epoch. */
  readonly openedAt: number
}

/**
 * `too-many-connections`: the caller holds its share of the socket; `caller-held`: the caller exceeded a rate;
 * `unidentified`: the caller cannot be identified; `unknown-caller`: there are no facts about its subject.
 */
export type RefusedConnection =
  | 'not-allowed'
  | 'too-many-connections'
  | 'too-many-of-caller'
  | 'too-many-in-process'
  | 'caller-held'
  | 'unreadable-credentials'
  | 'unidentified'
  | 'unknown-caller'

/** Names and texts in these are escaped; none holds a key. A `stream` is updated in place: read it in the call of the listener. */
export type SdsEvent =
  | { readonly kind: 'connection-opened'; readonly connection: ConnectionInfo }
  | { readonly kind: 'connection-closed'; readonly connection: ConnectionInfo }
  /** `detail`: for `unidentified`, the finding and the remedy. */
  | {
      readonly kind: 'connection-refused'
      readonly connection: ConnectionInfo
      readonly reason: RefusedConnection
      readonly detail?: string
    }
  | { readonly kind: 'stream-opened'; readonly stream: StreamInfo }
  /** `status` is the gRPC status with which the server ended it; 0 for a regular end. */
  | { readonly kind: 'stream-closed'; readonly stream: StreamInfo; readonly status: number; readonly details: string }
  | {
      readonly kind: 'stream-refused'
      readonly connection: ConnectionInfo
      readonly method: CallMethod
      readonly bound: CallBound
    }
  /** `peer` describes the peer for operators. */
  | {
      readonly kind: 'stream-report'
      readonly stream: StreamInfo
      readonly report: StreamReport
      readonly peer: string
    }
  /**
   * A caller asks for more than its `requestsPerSecond`, on all its sockets together: `streams` of them wait. Reported when that
   * begins, and every 10 s while it lasts.
   */
  | { readonly kind: 'caller-slowed'; readonly socket: string; readonly caller: string; readonly streams: number }
  /** A bug: the stream ended with INTERNAL. */
  | { readonly kind: 'stream-failed'; readonly stream: StreamInfo; readonly error: unknown }
  /** The limits of a socket are more than the process can have. Reported when the socket opens. */
  | ({ readonly kind: 'few-descriptors' } & DescriptorShortage)
  | SocketFileEvent
