/** A CA for tests that really signs, misbehaves on demand, and rotates its root. */
import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type JsonGeneralNames,
  KeyUsageFlags,
  KeyUsagesExtension,
  Pkcs10CertificateRequest,
  type PublicKeyType,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
  X509CrlGenerator,
  X509CrlReason,
} from '@peculiar/x509'
import type { CAChange, CAClient, CertificateRequest, IssuedCertificate } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'

const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const CA_USAGE = KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign
const YEAR_MS = 365 * 86_400_000

/** The fields of a certificate that should differ from the request. */
export interface CertificateOverrides {
  readonly names?: JsonGeneralNames
  /** Milliseconds since the epoch. */
  readonly notBefore?: number
  readonly notAfter?: number
  readonly ca?: boolean
  readonly usages?: readonly ExtendedKeyUsage[]
  readonly keyUsage?: KeyUsageFlags
  readonly publicKey?: PublicKeyType
  readonly issuer?: TestIssuer
}

/** A root or intermediate: certificate and key. */
export interface TestIssuer {
  readonly pem: string
  readonly subject: string
  readonly key: webcrypto.CryptoKey
  readonly keys: webcrypto.CryptoKeyPair
}

type Answer = (request: CertificateRequest, sign: TestCA['sign']) => Promise<IssuedCertificate>

/** Answers as `answer` says; by default with a leaf of the identity under the newest root. */
export class TestCA implements CAClient {
  readonly requests: CertificateRequest[] = []
  /** Set it to misbehave. */
  answer: Answer = (request, sign) => sign(request)
  readonly #clock: Clock
  readonly #roots: TestIssuer[] = []
  readonly #listeners = new Set<(change: CAChange) => void>()

  private constructor(clock: Clock) {
    this.#clock = clock
  }

  static async create(clock: Clock): Promise<TestCA> {
    const ca = new TestCA(clock)
    await ca.addRoot()
    return ca
  }

  /** PEM, oldest first. */
  get roots(): readonly string[] {
    return this.#roots.map(root => root.pem)
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    this.requests.push(request)
    return this.answer(request, this.sign)
  }

  trustBundle(): Promise<readonly string[]> {
    return Promise.resolve(this.roots)
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }

  /** Signs with a new root from now on; the old ones stay listed. */
  async addRoot(): Promise<void> {
    this.#roots.push(await makeIssuer(`CN=root ${this.#roots.length + 1}`, this.#clock.now()))
    this.#notify({ kind: 'roots' })
  }

  /** Lists and signs with the newest root only. */
  dropOldRoots(): void {
    this.#roots.splice(0, this.#roots.length - 1)
    this.#notify({ kind: 'roots' })
  }

  /** Reports that it has other certificates for these identities. */
  changeCertificates(...identities: readonly SpiffeId[]): void {
    this.#notify({ kind: 'certificates', identities })
  }

  /** Reports that it has other roots. */
  changeRoots(): void {
    this.#notify({ kind: 'roots' })
  }

  #notify(change: CAChange): void {
    for (const listener of this.#listeners) listener(change)
  }

  readonly sign = async (
    request: CertificateRequest,
    overrides: CertificateOverrides = {},
  ): Promise<IssuedCertificate> => {
    const issuer = overrides.issuer ?? this.newestRoot()
    const now = this.#clock.now()
    const leaf = await makeCertificate(issuer, {
      names: [{ type: 'url', value: request.identity }, ...dnsNames(request)],
      notBefore: now - 1_000,
      notAfter: now + request.ttlSeconds * 1_000,
      ca: false,
      usages: [ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth],
      publicKey: overrides.publicKey ?? new Pkcs10CertificateRequest((await request.csr()).pem).publicKey,
      ...overrides,
    })
    return { chain: [leaf], roots: this.roots }
  }

  newestRoot(): TestIssuer {
    const root = this.#roots.at(-1)
    if (!root) throw new Error('the test CA has no root')
    return root
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear()
  }
}

function dnsNames({ dnsNames = [] }: CertificateRequest): JsonGeneralNames {
  return dnsNames.map(value => ({ type: 'dns', value }))
}

/** A CA certificate, self-signed or under `parent`, with a new key or the key of `again`. */
export async function makeIssuer(
  subject: string,
  now: number,
  parent?: TestIssuer,
  again?: TestIssuer,
): Promise<TestIssuer> {
  const keys = again?.keys ?? (await webcrypto.subtle.generateKey(P256, true, ['sign', 'verify']))
  const self = { pem: '', subject, key: keys.privateKey, keys }
  const pem = await makeCertificate(parent ?? self, {
    subject,
    notBefore: now - 60_000,
    notAfter: now + 10 * YEAR_MS,
    ca: true,
    publicKey: keys.publicKey,
  })
  return { ...self, pem }
}

/** A revocation list of `issuer` as PEM, which names these certificates by their serial numbers (hex). */
export async function makeCrl(
  issuer: Pick<TestIssuer, 'subject' | 'key'>,
  serialNumbers: readonly string[],
  { thisUpdate, nextUpdate }: { readonly thisUpdate: number; readonly nextUpdate: number },
): Promise<string> {
  const crl = await X509CrlGenerator.create({
    issuer: issuer.subject,
    thisUpdate: new Date(thisUpdate),
    nextUpdate: new Date(nextUpdate),
    // The library writes an empty list for an entry without an extension, which verifiers refuse.
    entries: serialNumbers.map(serialNumber => ({
      serialNumber,
      revocationDate: new Date(thisUpdate),
      reason: X509CrlReason.keyCompromise,
    })),
    signingKey: issuer.key,
    signingAlgorithm: P256,
  })
  return `-----BEGIN X509 CRL-----\n${Buffer.from(crl.rawData).toString('base64')}\n-----END X509 CRL-----\n`
}

async function makeCertificate(
  issuer: TestIssuer,
  fields: Omit<CertificateOverrides, 'issuer'> & {
    readonly subject?: string
    readonly notBefore: number
    readonly notAfter: number
    readonly ca: boolean
    readonly publicKey: PublicKeyType
  },
): Promise<string> {
  const usage = fields.keyUsage ?? (fields.ca ? CA_USAGE : KeyUsageFlags.digitalSignature)
  const certificate = await X509CertificateGenerator.create({
    serialNumber: Buffer.from(webcrypto.getRandomValues(new Uint8Array(15)))
      .toString('hex')
      .replace(/^../, '4a'),
    subject: fields.subject ?? '',
    issuer: issuer.subject,
    notBefore: new Date(fields.notBefore),
    notAfter: new Date(fields.notAfter),
    publicKey: fields.publicKey,
    signingKey: issuer.key,
    signingAlgorithm: P256,
    extensions: [
      new BasicConstraintsExtension(fields.ca, undefined, true),
      new KeyUsagesExtension(usage, true),
      ...(fields.usages ? [new ExtendedKeyUsageExtension([...fields.usages])] : []),
      ...(fields.names ? [new SubjectAlternativeNameExtension(fields.names, true)] : []),
    ],
  })
  return `${certificate.toString('pem')}\n`
}
