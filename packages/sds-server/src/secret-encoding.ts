/** Secrets and responses as bytes: a secret is encoded once a version and name, and shared by all streams. */
import type { SecretItem } from '@livery/core'
import type { DiscoveryMessage } from './discovery-protocol.ts'
import { Secret } from './gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import { DeltaDiscoveryResponse, DiscoveryResponse } from './gen/envoy/service/discovery/v3/discovery.ts'
import { SECRET_TYPE_URL } from './request-check.ts'
import type { NamedSecret } from './subscriptions.ts'

/**
 * Encodes the responses of one protocol form. Protobuf messages merge when their bytes are joined, so the resources of
 * a response are encoded by themselves, kept as long as their item, and put behind the few bytes that differ by stream.
 */
export class ResponseEncoder {
  readonly #encodeResource: (secret: NamedSecret) => Uint8Array
  readonly #encodeHead: (message: DiscoveryMessage) => Uint8Array
  readonly #encoded = new WeakMap<SecretItem, Map<string, Uint8Array>>()

  constructor(
    encodeResource: (secret: NamedSecret) => Uint8Array,
    encodeHead: (message: DiscoveryMessage) => Uint8Array,
  ) {
    this.#encodeResource = encodeResource
    this.#encodeHead = encodeHead
  }

  encode(message: DiscoveryMessage): Buffer {
    return Buffer.concat([this.#encodeHead(message), ...message.resources.map(secret => this.#resource(secret))])
  }

  /** The key is copied here while the item is the current one: its owner wipes it afterwards. */
  #resource(secret: NamedSecret): Uint8Array {
    const byName = this.#encoded.get(secret.item) ?? new Map<string, Uint8Array>()
    if (byName.size === 0) this.#encoded.set(secret.item, byName)
    const present = byName.get(secret.name)
    if (present) return present
    const bytes = this.#encodeResource(secret)
    byName.set(secret.name, bytes)
    return bytes
  }
}

export function sotwEncoder(): ResponseEncoder {
  return new ResponseEncoder(
    secret =>
      DiscoveryResponse.encode({ versionInfo: '', resources: [toAny(secret)], typeUrl: '', nonce: '' }).finish(),
    ({ version, nonce }) =>
      DiscoveryResponse.encode({ versionInfo: version, resources: [], typeUrl: SECRET_TYPE_URL, nonce }).finish(),
  )
}

export function deltaEncoder(): ResponseEncoder {
  const empty = { systemVersionInfo: '', resources: [], typeUrl: '', nonce: '', removedResources: [] }
  return new ResponseEncoder(
    secret =>
      DeltaDiscoveryResponse.encode({
        ...empty,
        resources: [{ name: secret.name, version: secret.item.version, resource: toAny(secret) }],
      }).finish(),
    ({ version, nonce, removed }) =>
      DeltaDiscoveryResponse.encode({
        ...empty,
        systemVersionInfo: version,
        typeUrl: SECRET_TYPE_URL,
        nonce,
        removedResources: [...removed],
      }).finish(),
  )
}

function toAny({ name, item }: NamedSecret): { typeUrl: string; value: Buffer } {
  const secret = Secret.encode({ name, type: secretType(item) }).finish()
  return { typeUrl: SECRET_TYPE_URL, value: Buffer.from(secret.buffer, secret.byteOffset, secret.byteLength) }
}

function secretType(item: SecretItem): Secret['type'] {
  if (item.kind === 'bundle') {
    return { $case: 'validationContext', value: { trustedCa: { inlineBytes: Buffer.from(item.trustedCa) } } }
  }
  const certificateChain = { inlineBytes: Buffer.from(item.certificateChain) }
  const key = item.privateKey()
  // A view and no copy: the bytes go into the message and nowhere else.
  const privateKey = { inlineBytes: Buffer.from(key.buffer, key.byteOffset, key.byteLength) }
  return { $case: 'tlsCertificate', value: { certificateChain, privateKey } }
}
