/** The types of a response to be sent. */
import type { SecretItem, TrustBundleSecret } from '@livery/core'

/** The only resource type on an SDS stream. */
export const SECRET_TYPE_URL = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret'

/** A secret to be sent, under the name that was asked for. */
export interface NamedSecret {
  readonly name: string
  readonly item: SecretItem
}

/** The content of a response. */
export interface ResponseContent {
  readonly nonce: string
  /** The version of a single resource, or a hash of the versions of all. */
  readonly version: string
  readonly resources: readonly NamedSecret[]
  /** Names that have no secret: Delta reports them as removed, SotW as secrets that are invalid. */
  readonly removed: readonly string[]
  /** Whether SotW reports a removed name as a resource whose time is over. Default: false. */
  readonly isExpired?: boolean
  /** Whether more than one stream has got it. Default: false. */
  readonly isShared?: boolean
}

/** One response to be sent. */
export interface DiscoveryMessage extends ResponseContent {
  /** Each message has a higher one than those before it. */
  readonly number: number
  /** Its resources for the ledger and the log. */
  readonly secrets: readonly SentSecret[]
}

/** A secret under its requested name, escaped, and under its ledger's name. */
export interface SecretReference {
  readonly name: string
  readonly ledgerName: string
}

export interface SentSecret extends SecretReference {
  readonly version: string
  /** Absent for a certificate. */
  readonly bundle: TrustBundleSecret | undefined
}
