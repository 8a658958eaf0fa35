/** Secrets and responses as bytes: a secret is encoded once a version and name, and shared by all streams. */
import type { SecretItem } from '@livery/core'
import type { DiscoveryMessage, ResponseContent } from './discovery-message.ts'
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
  readonly #shared = new WeakMap<DiscoveryMessage, Buffer>()

  constructor(encodeResource: (secret: NamedSecret) => Uint8Array) {
    this.#encodeResource = encodeResource
  }

  /** Not to be changed: one that several streams get is encoded once. */
  encodeMessage(message: DiscoveryMessage): Buffer {
    if (!message.isShared) return this.encode(message)
    const present = this.#shared.get(message)
    if (present) return present
    const bytes = this.encode(message)
    this.#shared.set(message, bytes)
    return bytes
  }

  encode({ version, nonce, removed, resources }: ResponseContent): Buffer {
    const bodies = resources.map(secret => this.#resource(secret))
    let length = textFieldLength(version) + TYPE_URL_FIELD.length + textFieldLength(nonce)
    for (const name of removed) length += textFieldLength(name)
    for (const body of bodies) length += body.length

    const message = Buffer.allocUnsafe(length)
    let end = writeTextField(message, 0, FIELDS.version, version)
    end += TYPE_URL_FIELD.copy(message, end)
    end = writeTextField(message, end, FIELDS.nonce, nonce)
    for (const name of removed) end = writeTextField(message, end, FIELDS.removedResources, name)
    for (const body of bodies) {
      message.set(body, end)
      end += body.length
    }
    return message
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
const TYPE_URL_FIELD = Buffer.alloc(textFieldLength(SECRET_TYPE_URL))
writeTextField(TYPE_URL_FIELD, 0, FIELDS.typeUrl, SECRET_TYPE_URL)

/*
 * Fields of wire type 2 (https://protobuf.dev/programming-guides/encoding/). By hand, since a writer for these few bytes
 * cost a tenth of a response.
 */

function textFieldLength(text: string): number {
  const length = Buffer.byteLength(text)
  let prefix = 2
  for (let rest = length >>> 7; rest > 0; rest >>>= 7) prefix++
  return prefix + length
}

/** Returns where the field ends. */
function writeTextField(target: Buffer, start: number, number: number, text: string): number {
  let at = target.writeUInt8((number << 3) | 2, start)
  let rest = Buffer.byteLength(text)
  for (; rest > 0x7f; rest >>>= 7) at = target.writeUInt8((rest & 0x7f) | 0x80, at)
  at = target.writeUInt8(rest, at)
  return at + target.write(text, at)
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
  const certificateChain = { inlineBytes: item.certificateChain }
  const key = item.privateKey()
  // A view and no copy: the bytes go into the message and nowhere else.
  const privateKey = { inlineBytes: Buffer.from(key.buffer, key.byteOffset, key.byteLength) }
  return { $case: 'tlsCertificate', value: { certificateChain, privateKey } }
}
