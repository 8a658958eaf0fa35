/** A CA that signs real certificates quickly, all for one key or two, and goes away on demand: tens of thousands in a test. */
import { generateKeyPairSync, KeyObject, sign, X509Certificate } from 'node:crypto'
import {
  type CAChange,
  type CAClient,
  CAError,
  type CertificateRequest,
  derToPem,
  type GeneratedKey,
  type IssuedCertificate,
  type KeyGenerator,
  untilAborted,
} from '@livery/core/plugin'
import { makeIssuer, type TestIssuer } from '@livery/core/testing'

interface Key {
  readonly privateKeyPem: string
  readonly publicKeyDer: Buffer
}

function makeKey(): Key {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    privateKeyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKeyDer: publicKey.export({ type: 'spki', format: 'der' }),
  }
}

const KEY = makeKey()
const OTHER_KEY = makeKey()

/** Hands out one key again and again. */
export const oneKey: KeyGenerator = {
  name: 'one key',
  generate: () => Promise.resolve(aKey()),
  generateBatch: requests => Promise.resolve(requests.map(aKey)),
}

function aKey(): GeneratedKey {
  const { privateKeyPem, publicKeyDer } = KEY
  return { privateKeyPem: Buffer.from(privateKeyPem), csrDer: Buffer.alloc(1), publicKeyDer }
}

/** A certificate and its key, as they are written to files. */
export interface SignedPair {
  /** PEM. */
  readonly chain: string
  readonly key: string
  /** Lower-case hex. */
  readonly serialNumber: string
}

interface Root {
  readonly pem: string
  readonly subjectDer: Buffer
  readonly key: KeyObject
}

export class QuickCA implements CAClient {
  /** `refuse`: calls fail at once. `silent`: they wait for their deadline. */
  away: 'no' | 'refuse' | 'silent' = 'no'
  /** How far its clock is ahead, milliseconds. */
  skewMs = 0
  signed = 0
  calls = 0
  readonly #now: () => number
  readonly #roots: Root[] = []
  readonly #listeners = new Set<(change: CAChange) => void>()

  /** `now`: the true time, milliseconds since the epoch. Has no root before `addRoot`. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Signs under a new root from now on; the others stay listed. */
  async addRoot(): Promise<void> {
    const subject = `CN=root ${this.#roots.length + 1} of ${this.#now()}`
    this.#roots.push(readRoot(await makeIssuer(subject, this.#now())))
    this.#announce()
  }

  dropOldRoots(): void {
    this.#roots.splice(0, this.#roots.length - 1)
    this.#announce()
  }

  async issue({ identity, ttlSeconds, signal, csr }: CertificateRequest): Promise<IssuedCertificate> {
    this.calls++
    await this.#reach(signal)
    await csr()
    return { chain: [this.#sign(identity, ttlSeconds, KEY)], roots: this.#list() }
  }

  /** Signs for files, whether it is away or not. No two in a row for one name have the same key. */
  pair(identity: string, ttlSeconds: number, before?: SignedPair): SignedPair {
    const key = before?.key === KEY.privateKeyPem ? OTHER_KEY : KEY
    const chain = this.#sign(identity, ttlSeconds, key)
    return { chain, key: key.privateKeyPem, serialNumber: serialBytes(this.signed).toString('hex') }
  }

  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    await this.#reach(signal)
    return this.#list()
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear()
  }

  async #reach(signal: AbortSignal): Promise<void> {
    if (this.away === 'refuse') throw new CAError('unavailable', 'the connection is refused')
    if (this.away === 'silent') await untilAborted(new Promise(() => {}), signal)
  }

  /** PEM. */
  #sign(identity: string, ttlSeconds: number, { publicKeyDer }: Key): string {
    const root = this.#roots.at(-1)
    if (!root) throw new CAError('unavailable', 'it has no root yet')
    const now = this.#now() + this.skewMs
    const dates = { notBefore: now - 10_000, notAfter: now + ttlSeconds * 1_000 }
    const leaf = signLeaf(root, { identity, serial: ++this.signed, publicKeyDer, ...dates })
    return derToPem(leaf, 'CERTIFICATE')
  }

  #list(): readonly string[] {
    return this.#roots.map(({ pem }) => pem)
  }

  #announce(): void {
    for (const listener of this.#listeners) listener({ kind: 'roots' })
  }
}

function readRoot({ pem, key }: TestIssuer): Root {
  const { raw } = new X509Certificate(pem)
  const [toBeSigned = raw] = elements(raw)
  const [, , , issuer = raw] = elements(toBeSigned)
  return {
    pem,
    subjectDer: issuer,
    key: KeyObject.from(key),
  }
}

/** The elements of a sequence, whole. */
function elements(der: Buffer): readonly Buffer[] {
  const found: Buffer[] = []
  for (let at = bodyOf(der, 0).from; at < der.length; ) {
    const { to } = bodyOf(der, at)
    found.push(der.subarray(at, to))
    at = to
  }
  return found
}

function bodyOf(der: Buffer, at: number): { readonly from: number; readonly to: number } {
  const first = der[at + 1] ?? 0
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f
  const length = lengthBytes === 0 ? first : der.readUIntBE(at + 2, lengthBytes)
  const from = at + 2 + lengthBytes
  return { from, to: from + length }
}

interface Leaf {
  readonly identity: string
  readonly serial: number
  readonly notBefore: number
  readonly notAfter: number
  readonly publicKeyDer: Buffer
}

const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'))
const CRITICAL = tlv(0x01, Buffer.from([0xff]))

/** RFC 5280, section 4.1, with what a SPIFFE leaf needs. */
function signLeaf(root: Root, { identity, serial, notBefore, notAfter, publicKeyDer }: Leaf): Buffer {
  const extensions = sequence(
    sequence(oid('551d13'), CRITICAL, octets(sequence())),
    sequence(oid('551d0f'), CRITICAL, octets(tlv(0x03, Buffer.from([7, 0x80])))),
    sequence(oid('551d25'), octets(sequence(oid('2b06010505070301'), oid('2b06010505070302')))),
    sequence(oid('551d11'), CRITICAL, octets(sequence(tlv(0x86, Buffer.from(identity))))),
  )
  const toBeSigned = sequence(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, serialBytes(serial)),
    ECDSA_WITH_SHA256,
    root.subjectDer,
    sequence(time(notBefore), time(notAfter)),
    sequence(),
    publicKeyDer,
    tlv(0xa3, extensions),
  )
  const signature = sign('sha256', toBeSigned, root.key)
  return sequence(toBeSigned, ECDSA_WITH_SHA256, tlv(0x03, Buffer.concat([Buffer.from([0]), signature])))
}

function serialBytes(serial: number): Buffer {
  const bytes = Buffer.alloc(9)
  bytes[0] = 0x4a
  bytes.writeUInt32BE(serial, 5)
  return bytes
}

function tlv(tag: number, ...parts: readonly Buffer[]): Buffer {
  const value = Buffer.concat(parts)
  const { length } = value
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), value])
  return Buffer.concat([Buffer.from([tag, 0x82, length >> 8, length & 0xff]), value])
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tlv(0x30, ...parts)
}

function octets(part: Buffer): Buffer {
  return tlv(0x04, part)
}

function oid(hex: string): Buffer {
  return tlv(0x06, Buffer.from(hex, 'hex'))
}

/** UTCTime, good until 2049. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/^20|[-:T]|\.\d+/g, '')
  return tlv(0x17, Buffer.from(text))
}
