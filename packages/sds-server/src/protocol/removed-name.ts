/** A name that has no secret, as a part of a response. */
import { Secret } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import { DeltaDiscoveryResponse, DiscoveryResponse, Resource } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { SECRET_TYPE_URL } from './response-content.ts'

const RESOURCE_TYPE_URL = 'type.googleapis.com/envoy.service.discovery.v3.Resource'

/**
 * A resource without a secret. Envoy rejects it, like every secret that it did not ask for, and removes its own at once.
 * It would count as a heartbeat with the version that Envoy has.
 */
const EXPIRED: Resource = { version: 'none', resource: undefined, name: '', ttl: { seconds: 0, nanos: 0 } }

/**
 * `session_ticket_keys` of a Secret, without any key. The validation rules require one, so Envoy rejects the secret for
 * every use. No rule forbids an empty Secret, which as a validation context would admit every peer.
 */
const NO_TICKET_KEYS = Buffer.from([(3 << 3) | 2, 0])

/** `isExpired`: whether it is sent as a resource whose time is over. */
export function sotwRemoved(name: string, isExpired: boolean): Uint8Array {
  const [typeUrl, value] = isExpired
    ? [RESOURCE_TYPE_URL, Buffer.from(Resource.encode({ ...EXPIRED, name }).finish())]
    : [SECRET_TYPE_URL, Buffer.concat([Secret.encode({ name, type: undefined }).finish(), NO_TICKET_KEYS])]
  return DiscoveryResponse.encode({ versionInfo: '', resources: [{ typeUrl, value }], typeUrl: '', nonce: '' }).finish()
}

export function deltaRemoved(name: string): Uint8Array {
  const empty = { systemVersionInfo: '', typeUrl: '', nonce: '', resources: [] }
  return DeltaDiscoveryResponse.encode({ ...empty, removedResources: [name] }).finish()
}
