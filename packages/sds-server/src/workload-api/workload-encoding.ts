/** Responses of the Workload API as bytes: encoded once for all streams that get the same, without their keys. */
import type { AllBundlesSecret, CertificateSecret, TrustBundleSecret } from '@livery/core'
import { pemBlocks, pemToDer, privateKeyToPkcs8, trustDomainOf } from '@livery/core/plugin'
import { JWTBundlesResponse, X509BundlesResponse, X509SVID, X509SVIDResponse } from '../gen/spiffe/workload/workload.ts'
import { ResponseFrame } from '../protocol/response-frame.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { Svid, WorkloadMessage } from './workload-stream.ts'

/** The default limit of gRPC clients. */
const MAX_RESPONSE_BYTES = 4_194_304
/** Frames that are kept for further streams, together. */
const MAX_KEPT_BYTES = 8_388_608

const EMPTY = Buffer.alloc(0)
/** `X509SVIDResponse.svids` and `X509SVID.x509_svid_key`, wire type 2: https://protobuf.dev/programming-guides/encoding/ */
const SVIDS_TAG = (1 << 3) | 2
const KEY_TAG = (3 << 3) | 2

interface Kept {
  readonly message: WorkloadMessage
  readonly frame: ResponseFrame
}

/** One per method. It keeps no key. */
export class WorkloadEncoder {
  readonly #encode: (message: WorkloadMessage) => ResponseFrame
  /** Kept frames by version, the latest last. */
  readonly #kept = new Map<string, Kept>()
  #keptBytes = 0

  constructor(encode: (message: WorkloadMessage) => ResponseFrame) {
    this.#encode = encode
  }

  /** A frame that is acquired for one write. Throws a `StreamRefusal` (RESOURCE_EXHAUSTED) for one that clients would refuse. */
  encodeMessage(message: WorkloadMessage): ResponseFrame {
    const kept = this.#kept.get(message.version)
    if (kept && hasSameKeys(kept.message, message)) return kept.frame.acquire()
    const frame = this.#encode(message)
    this.#keep(message, frame)
    return frame.acquire()
  }

  #keep(message: WorkloadMessage, frame: ResponseFrame): void {
    this.#drop(message.version)
    this.#kept.set(message.version, { message, frame })
    this.#keptBytes += frame.bytes.length
    for (const version of this.#kept.keys()) {
      if (this.#keptBytes <= MAX_KEPT_BYTES) break
      this.#drop(version)
    }
  }

  #drop(version: string): void {
    this.#keptBytes -= this.#kept.get(version)?.frame.bytes.length ?? 0
    this.#kept.delete(version)
  }
}

/** A certificate that was dropped and restored has the same version, but another key object. */
function hasSameKeys(a: WorkloadMessage, b: WorkloadMessage): boolean {
  return a.svids.every(({ item }, index) => item === b.svids[index]?.item)
}

/** An `X509SVIDResponse`. */
export function encodeSvids({ svids, bundles }: WorkloadMessage): ResponseFrame {
  const own = new Set(svids.map(({ identity }) => trustDomainOf(identity)))
  const federated = bundles.bundles.filter(({ trustDomain }) => !own.has(trustDomain))
  const rest = X509SVIDResponse.encode({
    svids: [],
    crl: revocationLists(bundles),
    federatedBundles: byId(federated),
  }).finish()
  const parts = svids.flatMap(svid => svidParts(svid, bundles))
  return toFrame([...parts, rest])
}

/** An `X509BundlesResponse`. */
export function encodeBundles({ bundles }: WorkloadMessage): ResponseFrame {
  return toFrame([
    X509BundlesResponse.encode({ crl: revocationLists(bundles), bundles: byId(bundles.bundles) }).finish(),
  ])
}

/** A JWKS document (RFC 7517, section 5) without keys: no JWT-SVID is valid under it. */
const NO_KEYS = Buffer.from('{"keys":[]}')

/** A `JWTBundlesResponse`. */
export function encodeJwtBundles({ bundles }: WorkloadMessage): ResponseFrame {
  const byDomain = bundles.bundles.map(({ trustDomain }) => [`spiffe://${trustDomain}`, NO_KEYS] as const)
  return toFrame([JWTBundlesResponse.encode({ bundles: Object.fromEntries(byDomain) }).finish()])
}

/** Bytes, or the place of a key. */
type Part = Uint8Array | Pkcs8Key

/** One element of `svids`. Protobuf messages merge when their bytes are joined, so its fields are encoded apart from the key. */
function svidParts({ identity: spiffeId, item }: Svid, { bundles }: AllBundlesSecret): readonly Part[] {
  const trustDomain = trustDomainOf(spiffeId)
  const own = bundles.find(each => each.trustDomain === trustDomain)
  const none = { spiffeId: '', x509Svid: EMPTY, x509SvidKey: EMPTY, bundle: EMPTY, hint: '' }
  const before = X509SVID.encode({ ...none, spiffeId, x509Svid: toDer(item.certificateChain) }).finish()
  const after = X509SVID.encode({ ...none, bundle: own ? derOf(own.bundle) : EMPTY, hint: item.hint ?? '' }).finish()
  const key = new Pkcs8Key(item)
  const keyHead = head(KEY_TAG, key.byteLength)
  const length = before.length + keyHead.length + key.byteLength + after.length
  return [head(SVIDS_TAG, length), before, keyHead, key, after]
}

function toFrame(parts: readonly Part[]): ResponseFrame {
  const length = parts.reduce((sum, part) => sum + part.byteLength, 0)
  if (length > MAX_RESPONSE_BYTES) {
    const reason = `these certificates and bundles are ${length} bytes: clients take at most ${MAX_RESPONSE_BYTES}`
    throw new StreamRefusal('resource-exhausted', reason)
  }
  const frame = new ResponseFrame(length)
  let end = ResponseFrame.start
  for (const part of parts) {
    if (part instanceof Uint8Array) frame.bytes.set(part, end)
    else {
      frame.slots.push({ key: part, offset: end })
      frame.bytes.fill(0, end, end + part.byteLength)
    }
    end += part.byteLength
  }
  return frame
}

/** The key of a certificate in the form of the Workload API. */
class Pkcs8Key {
  readonly byteLength: number
  readonly #item: CertificateSecret

  /** Throws if the key was wiped. */
  constructor(item: CertificateSecret) {
    this.#item = item
    this.byteLength = this.#open(der => der.length)
  }

  copyTo(target: Uint8Array, offset: number): void {
    this.#open(der => target.set(der, offset))
  }

  #open<T>(use: (der: Buffer) => T): T {
    return this.#item.privateKey.open(pem => {
      const der = privateKeyToPkcs8(pem, this.#item.certificateChain)
      try {
        return use(der)
      } finally {
        der.fill(0)
      }
    })
  }
}

const bundleBytes = new WeakMap<TrustBundleSecret, Buffer>()

/** Thousands of messages have the same bundle. */
function derOf(bundle: TrustBundleSecret): Buffer {
  const known = bundleBytes.get(bundle)
  if (known) return known
  const der = toDer(Buffer.from(bundle.trustedCa))
  bundleBytes.set(bundle, der)
  return der
}

function byId(bundles: AllBundlesSecret['bundles']): Record<string, Buffer> {
  return Object.fromEntries(bundles.map(({ trustDomain, bundle }) => [`spiffe://${trustDomain}`, derOf(bundle)]))
}

/** Distinct lists: bundles may share them. */
function revocationLists({ bundles }: AllBundlesSecret): Buffer[] {
  const lists = new Set(bundles.flatMap(({ bundle }) => blocksOf(Buffer.from(bundle.crl ?? EMPTY))))
  return [...lists].map(pemToDer)
}

function toDer(pem: Buffer): Buffer {
  return Buffer.concat(blocksOf(pem).map(pemToDer))
}

function blocksOf(pem: Buffer): readonly string[] {
  return pemBlocks(pem).flatMap(({ bytes }) => bytes?.toString('latin1') ?? [])
}

function head(tag: number, length: number): Buffer {
  const bytes = [tag]
  let rest = length
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return Buffer.from([...bytes, rest])
}
