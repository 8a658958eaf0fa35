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
  readonly #encoded = new WeakMap<SecretItem, Map<string, Uint8Array>>()

  constructor(encodeResource: (secret: NamedSecret) => Uint8Array) {
    this.#encodeResource = encodeResource
  }

  encode({ version, nonce, removed, resources }: DiscoveryMessage): Buffer {
    return Buffer.concat([
      textField(FIELDS.version, version),
      TYPE_URL_FIELD,
      textField(FIELDS.nonce, nonce),
      ...removed.map(name => textField(FIELDS.removedResources, name)),
      ...resources.map(secret => this.#resource(secret)),
    ])
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

/** Numbers of the text fields: the same in DiscoveryResponse and DeltaDiscoveryResponse, where both have them. */
const FIELDS = { version: 1, typeUrl: 4, nonce: 5, removedResources: 6 } as const
const TYPE_URL_FIELD = textField(FIELDS.typeUrl, SECRET_TYPE_URL)

/**
 * One field of wire type 2 (https://protobuf.dev/programming-guides/encoding/). By hand, since a writer for these few
 * bytes cost a tenth of a response.
 */
function textField(number: number, text: string): Buffer {
  const length = Buffer.byteLength(text)
  const prefix = [(number << 3) | 2]
  let rest = length
  for (; rest > 0x7f; rest >>>= 7) prefix.push((rest & 0x7f) | 0x80)
  prefix.push(rest)
  const field = Buffer.allocUnsafe(prefix.length + length)
  field.set(prefix)
  field.write(text, prefix.length)
  return field
}

export function sotwEncoder(): ResponseEncoder {
  return new ResponseEncoder(secret =>
    DiscoveryResponse.encode({ versionInfo: '', resources: [toAny(secret)], typeUrl: '', nonce: '' }).finish(),
  )
}

export function deltaEncoder(): ResponseEncoder {
  const empty = { systemVersionInfo: '', typeUrl: '', nonce: '', removedResources: [] }
  return new ResponseEncoder(secret => {
    const resource = { name: secret.name, version: secret.item.version, resource: toAny(secret) }
    return DeltaDiscoveryResponse.encode({ ...empty, resources: [resource] }).finish()
  })
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
