/** Secrets and responses as bytes: a secret that several responses hold is encoded once a version and name. */
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import type { SealedKey, SecretItem } from '@livery/core'
import { Secret } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import { DeltaDiscoveryResponse, DiscoveryResponse } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { FrameMemory } from './frame-memory.ts'
import { deltaRemoved, sotwRemoved } from './removed-name.ts'
import { type NamedSecret, type ResponseContent, SECRET_TYPE_URL } from './response-content.ts'
import { ResponseFrame } from './response-frame.ts'
import { textFieldLength, writeTextField } from './text-field.ts'
import { validationContext } from './validation-context.ts'

/** A resource without its key, which is inserted when it is sent. */
interface EncodedResource {
  readonly bytes: Uint8Array
  /** Absent if the resource has no key. */
  readonly key: SealedKey | undefined
  readonly keyOffset: number
}

/**
 * Encodes the responses of one protocol form. Protobuf messages merge when their bytes are joined, so the resources of
 * a response are encoded independently, kept from the second response to the end of their item, and put behind the few
 * bytes that differ by stream.
 * Nothing that is kept here holds a key.
 */
export class ResponseEncoder {
  readonly #encodeResource: (secret: NamedSecret, key: Buffer) => Uint8Array
  readonly #encodeRemoved: (name: string, isExpired: boolean) => Uint8Array
  /** By name; `undefined` after one response: most certificates have one stream, and keeping them would cost 2 kB each. */
  readonly #encoded = new WeakMap<SecretItem, Map<string, EncodedResource> | undefined>()
  readonly #shared = new WeakMap<ResponseContent, ResponseFrame>()
  readonly #memory = new FrameMemory()

  /** `encodeResource` is given bytes to encode in the place of the key; `encodeRemoved` a name that has no secret. */
  constructor(
    encodeResource: (secret: NamedSecret, key: Buffer) => Uint8Array,
    encodeRemoved: (name: string, isExpired: boolean) => Uint8Array,
  ) {
    this.#encodeResource = encodeResource
    this.#encodeRemoved = encodeRemoved
  }

  /** A frame that is acquired for one write. One that several streams get is encoded once. Throws if a key was wiped. */
  encodeMessage(message: ResponseContent): ResponseFrame {
    if (!message.isShared) return this.#encode(message, this.#memory)
    const present = this.#shared.get(message)
    if (present) return present.acquire()
    const frame = this.#encode(message)
    this.#shared.set(message, frame)
    return frame
  }

  #encode(content: ResponseContent, memory?: FrameMemory): ResponseFrame {
    const { version, nonce, removed, isExpired = false, resources } = content
    const bodies = resources.map(secret => this.#resource(secret))
    let length = textFieldLength(version) + TYPE_URL_FIELD.length + textFieldLength(nonce)
    for (const { bytes } of bodies) length += bytes.length
    const absent = removed.length === 0 ? NONE_REMOVED : removed.map(name => this.#encodeRemoved(name, isExpired))
    for (const bytes of absent) length += bytes.length

    const frame = new ResponseFrame(length, memory)
    const target = frame.bytes
    let end = writeTextField(target, ResponseFrame.start, FIELDS.version, version)
    target.set(TYPE_URL_FIELD, end)
    end = writeTextField(target, end + TYPE_URL_FIELD.length, FIELDS.nonce, nonce)
    for (const bytes of absent) {
      target.set(bytes, end)
      end += bytes.length
    }
    for (const { bytes, key, keyOffset } of bodies) {
      target.set(bytes, end)
      if (key) frame.slots.push({ key, offset: end + keyOffset })
      end += bytes.length
    }
    return frame.acquire()
  }

  #resource(secret: NamedSecret): EncodedResource {
    const { item, name } = secret
    const byName = this.#encoded.get(item)
    const present = byName?.get(name)
    if (present) return present
    const encoded = encodeWithoutKey(secret, this.#encodeResource)
    if (byName) byName.set(name, encoded)
    else this.#encoded.set(item, this.#encoded.has(item) ? new Map([[name, encoded]]) : undefined)
    return encoded
  }
}

/** 0xff cannot occur in UTF-8 or end a varint, so a run of it marks only the key's place. */
const PLACEHOLDER = 0xff

function encodeWithoutKey(
  secret: NamedSecret,
  encode: (secret: NamedSecret, key: Buffer) => Uint8Array,
): EncodedResource {
  const { item } = secret
  const sealed = keyOf(item)
  if (!sealed) return { bytes: encode(secret, NO_KEY), key: undefined, keyOffset: 0 }
  const placeholder = Buffer.alloc(sealed.byteLength, PLACEHOLDER)
  const bytes = encode(secret, placeholder)
  const keyOffset = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).indexOf(placeholder)
  if (keyOffset === -1) throw new Error(`Cannot encode ${secret.name}: there is no place for its key`)
  bytes.fill(0, keyOffset, keyOffset + placeholder.length)
  return { bytes, key: sealed, keyOffset }
}

function keyOf(item: SecretItem): SealedKey | undefined {
  if (item.kind === 'certificate') return item.privateKey
  return item.kind === 'token' ? item.token : undefined
}

const NO_KEY = Buffer.alloc(0)
const NONE_REMOVED: readonly Uint8Array[] = []

/** Numbers of the text fields: the same in DiscoveryResponse and DeltaDiscoveryResponse, where both have them. */
const FIELDS = { version: 1, typeUrl: 4, nonce: 5 } as const
const TYPE_URL_FIELD = Buffer.alloc(textFieldLength(SECRET_TYPE_URL))
writeTextField(TYPE_URL_FIELD, 0, FIELDS.typeUrl, SECRET_TYPE_URL)

/** Shared by all resources: a writer for each would make six allocations, and memory outside the heap is expensive. */
let writer = new BinaryWriter()

function encoded<Content>(
  codec: { encode(content: Content, writer: BinaryWriter): BinaryWriter },
  content: Content,
): Uint8Array {
  try {
    return codec.encode(content, writer).finish()
  } catch (error) {
    // The writer still holds a part of this resource.
    writer = new BinaryWriter()
    throw error
  }
}

export function sotwEncoder(): ResponseEncoder {
  const empty = { versionInfo: '', typeUrl: '', nonce: '' }
  return new ResponseEncoder((secret, key) => {
    const resource = { typeUrl: SECRET_TYPE_URL, value: encodeSecret(secret, key) }
    return encoded(DiscoveryResponse, { ...empty, resources: [resource] })
  }, sotwRemoved)
}

export function deltaEncoder(): ResponseEncoder {
  const empty = { systemVersionInfo: '', typeUrl: '', nonce: '', removedResources: [] }
  return new ResponseEncoder((secret, key) => {
    const resource = { typeUrl: SECRET_TYPE_URL, value: encodeSecret(secret, key) }
    const resources = [{ name: secret.name, version: secret.item.version, resource, ttl: undefined }]
    return encoded(DeltaDiscoveryResponse, { ...empty, resources })
  }, deltaRemoved)
}

function encodeSecret({ name, item }: NamedSecret, key: Buffer): Buffer {
  const secret = encoded(Secret, { name, type: secretType(item, key) })
  return Buffer.from(secret.buffer, secret.byteOffset, secret.byteLength)
}

function secretType(item: SecretItem, key: Buffer): Secret['type'] {
  if (item.kind === 'token') return { $case: 'genericSecret', value: { secret: { inlineBytes: key } } }
  if (item.kind !== 'certificate') return { $case: 'validationContext', value: validationContext(item) }
  const certificateChain = { inlineBytes: item.certificateChain }
  return { $case: 'tlsCertificate', value: { certificateChain, privateKey: { inlineBytes: key } } }
}
