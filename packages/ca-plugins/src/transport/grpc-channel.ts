/** The target of a channel, and the calls that it carries. */
import type { Metadata } from '@grpc/grpc-js'
import type { Clock, TlsMaterial } from '@livery/core/plugin'

export interface ChannelCall {
  /** `/package.Service/Method`. */
  readonly path: string
  readonly request: Uint8Array
  readonly metadata: Metadata
  /** The deadline that the server gets, after which it may stop; the caller ends the call. Milliseconds; default: none. */
  readonly timeoutMs?: number | undefined
}

/** The address of the server, and how it proves itself. */
export interface ChannelTarget {
  /** A name or an address; an IPv6 address without its brackets. */
  readonly host: string
  readonly port: number
  /** The `:authority` of each call. Default: `host:port`. */
  readonly authority?: string | undefined
  /** Whether the connection goes without TLS. */
  readonly plaintext: boolean
  /** The name that the server's certificate must carry. */
  readonly serverName: string
  /** The name that TLS sends (RFC 6066, section 3). Default: `host`. */
  readonly sentName?: string | undefined
  readonly material: TlsMaterial
}

export interface Keepalive {
  /** How long calls wait before the connection is probed, milliseconds. */
  readonly afterMs: number
  /** How long a probe may take before the connection is given up, milliseconds. */
  readonly timeoutMs: number
}

export interface ChannelOptions {
  readonly target: ChannelTarget
  readonly clock: Clock
  /** Default: no probes. */
  readonly keepalive?: Keepalive | undefined
  /** A number in [0, 1). Default: `Math.random`. */
  readonly random?: () => number
}

/** The longest answer that is read: a chain of ten large certificates, several times over. */
export const MAX_ANSWER_BYTES = 1_048_576
