/** Says which identities the agent holds: the configuration's list is one source, the pods of a node another. */
import type { Events, SpiffeId } from '@livery/core'
import type { SocketConfig } from '@livery/sds-server'

/** A socket on which `default` means the identity. */
export type IdentitySocket = Omit<SocketConfig, 'identity' | 'onDemand' | 'limits'>

export interface HeldIdentity {
  /** The file with the token for its requests. Default: that of the CA. */
  readonly tokenFile?: string | undefined
  /** Its own sockets: each pod of a service account has one. */
  readonly sockets: readonly IdentitySocket[]
}

export type HeldIdentities = ReadonlyMap<SpiffeId, HeldIdentity>

/** A source that changes on its own. */
export interface IdentitySource {
  /** As they are now; `undefined` while the source does not know yet. */
  identities(): HeldIdentities | undefined
  /** Reported after `identities` has changed. */
  readonly changes: Events<void>
}
