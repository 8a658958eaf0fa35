/**
 * The contents of the certificates of the embedded CA: RFC 5280, and
 * https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md
 */
import 'reflect-metadata'
import { createHash, KeyObject, randomBytes, sign } from 'node:crypto'
import { promisify } from 'node:util'
import { derToPem, type KeyType, type SpiffeId } from '@livery/core/plugin'
import * as x509 from '@peculiar/x509'
import type { VerifiedRequest } from './certificate-request.ts'
import { bitString, element, extension, integer, objectIdentifier, octetString, sequence, time } from './der.ts'
import type { ServerNames } from './server-names.ts'

x509.cryptoProvider.set(crypto)

/** A CA certificate together with its private key, ready to sign. */
export interface Issuer {
  /** Newline at the end. */
  readonly pem: string
  readonly certificate: x509.X509Certificate
  readonly key: CryptoKey
  readonly authorityKeyIdentifier: x509.Extension
  /** The part that every leaf it issues shares, as DER. */
  readonly leafParts: {
    readonly signingKey: KeyObject
    readonly signatureAlgorithm: Uint8Array
    readonly name: Uint8Array
    readonly extensions: readonly Uint8Array[]
  }
}

/** First and last moment, in milliseconds since the epoch; certificates hold whole seconds. */
export interface Validity {
  readonly notBefore: number
  readonly notAfter: number
}

const KEY_ALGORITHMS: Readonly<Record<KeyType, EcKeyGenParams | RsaHashedKeyGenParams>> = {
  'ecdsa-p256': { name: 'ECDSA', namedCurve: 'P-256' },
  'ecdsa-p384': { name: 'ECDSA', namedCurve: 'P-384' },
  'rsa-2048': rsa(2048),
  'rsa-3072': rsa(3072),
  'rsa-4096': rsa(4096),
}

const LEAF_EXTENSIONS: readonly x509.Extension[] = [
  new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment, true),
  new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
  new x509.BasicConstraintsExtension(false, undefined, true),
]
const VERSION_3 = element(0xa0, integer(Buffer.of(2)))
const ECDSA_WITH_SHA256 = sequence(objectIdentifier('1.2.840.10045.4.3.2'))
const RSA_WITH_SHA256 = sequence(objectIdentifier('1.2.840.113549.1.1.11'), element(0x05))
const signAsync = promisify(sign)
const CA_KEY_USAGE = new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true)

/** A self-signed root of `trustDomain` with a new key. */
export async function createRoot(trustDomain: string, keyType: KeyType, validity: Validity): Promise<Issuer> {
  const keys = await generateKeys(keyType)
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    keys,
    name: caName(trustDomain, 'root'),
    serialNumber: serialNumber(),
    ...wholeSeconds(validity),
    signingAlgorithm: { name: keys.privateKey.algorithm.name, hash: 'SHA-256' },
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      CA_KEY_USAGE,
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return toIssuer(certificate, keys.privateKey)
}

/** An intermediate under `root`, with at most `pathLength` CAs below it; by default it issues leaves only. */
export async function createIntermediate(
  root: Issuer,
  keyType: KeyType,
  validity: Validity,
  pathLength = 0,
): Promise<Issuer> {
  const keys = await generateKeys(keyType)
  const organization = root.certificate.subjectName.getField('O')[0] ?? ''
  const certificate = await x509.X509CertificateGenerator.create({
    publicKey: keys.publicKey,
    subject: caName(organization, pathLength === 0 ? 'intermediate' : 'upper intermediate'),
    ...issuedBy(root, validity),
    extensions: [
      new x509.BasicConstraintsExtension(true, pathLength, true),
      CA_KEY_USAGE,
      root.authorityKeyIdentifier,
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return toIssuer(certificate, keys.privateKey)
}

/**
 * An X509-SVID as PEM: empty subject, and a critical SAN with `identity` as its one URI, then the DNS names. `publicKey` is SPKI,
 * DER; `serial` is hexadecimal and positive, a random one by default.
 */
export function createSvid(
  issuer: Issuer,
  identity: SpiffeId,
  { publicKey, dnsNames }: VerifiedRequest,
  validity: Validity,
  serial?: string,
): Promise<string> {
  const uri = element(0x86, Buffer.from(identity, 'latin1'))
  const names = [uri, ...dnsNames.map(name => element(0x82, Buffer.from(name, 'latin1')))]
  return createLeaf(issuer, subjectAlternativeName(names), publicKey, validity, serial)
}

/** A TLS server certificate for `names`, as PEM. */
export function createServerCertificate(
  issuer: Issuer,
  names: ServerNames,
  publicKey: Uint8Array,
  validity: Validity,
): Promise<string> {
  const general = [
    ...names.dnsNames.map(value => ({ type: 'dns' as const, value })),
    ...names.ipAddresses.map(value => ({ type: 'ip' as const, value })),
  ]
  const { rawData } = new x509.SubjectAlternativeNameExtension(general, true)
  return createLeaf(issuer, new Uint8Array(rawData), publicKey, validity)
}

/** Restores the issuer of an existing certificate and key. */
export async function toIssuer(certificate: x509.X509Certificate, key: CryptoKey): Promise<Issuer> {
  const authorityKeyIdentifier = await x509.AuthorityKeyIdentifierExtension.create(certificate.publicKey)
  return {
    pem: `${certificate.toString('pem').trimEnd()}\n`,
    certificate,
    key,
    authorityKeyIdentifier,
    leafParts: {
      signingKey: KeyObject.from(key),
      signatureAlgorithm: key.algorithm.name === 'ECDSA' ? ECDSA_WITH_SHA256 : RSA_WITH_SHA256,
      name: new Uint8Array(certificate.subjectName.toArrayBuffer()),
      extensions: [...LEAF_EXTENSIONS, authorityKeyIdentifier].map(({ rawData }) => new Uint8Array(rawData)),
    },
  }
}

export async function generateKeys(keyType: KeyType): Promise<CryptoKeyPair> {
  // Extractable, so that the CA can be kept in a directory.
  return crypto.subtle.generateKey(KEY_ALGORITHMS[keyType], true, ['sign', 'verify'])
}

/** SPKI, DER. */
export async function publicKeyOf(keys: CryptoKeyPair): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.exportKey('spki', keys.publicKey))
}

/** PKCS#8 PEM. */
export function exportPrivateKey(key: CryptoKey): string {
  return KeyObject.from(key).export({ type: 'pkcs8', format: 'pem' }).toString()
}

/**
 * Written by hand: a node that starts has a thousand workloads certified at once, and @peculiar/x509 takes
 * several times as long.
 */
async function createLeaf(
  { leafParts: { signingKey, signatureAlgorithm, name, extensions } }: Issuer,
  nameExtension: Uint8Array,
  publicKey: Uint8Array,
  validity: Validity,
  serial = serialNumber(),
): Promise<string> {
  const { notBefore, notAfter } = wholeSeconds(validity)
  const certificate = sequence(
    VERSION_3,
    integer(Buffer.from(serial, 'hex')),
    signatureAlgorithm,
    name,
    sequence(time(notBefore), time(notAfter)),
    sequence(),
    publicKey,
    element(0xa3, sequence(...extensions, subjectKeyIdentifier(publicKey), nameExtension)),
  )
  const signature = await signatureOf(certificate, signingKey)
  return derToPem(sequence(certificate, signatureAlgorithm, bitString(signature)), 'CERTIFICATE')
}

/** ECDSA takes less time than waking a thread for it; RSA takes more. */
async function signatureOf(certificate: Buffer, signingKey: KeyObject): Promise<Buffer> {
  return signingKey.asymmetricKeyType === 'ec'
    ? sign('sha256', certificate, signingKey)
    : await signAsync('sha256', certificate, signingKey)
}

/** Critical, since the subject is empty (RFC 5280, section 4.2.1.6). */
function subjectAlternativeName(names: readonly Uint8Array[]): Buffer {
  return extension('2.5.29.17', true, sequence(...names))
}

/** The shortened SHA-256 of the whole key (RFC 7093, section 2, methods 1 and 4). */
function subjectKeyIdentifier(publicKey: Uint8Array): Buffer {
  const identifier = createHash('sha256').update(publicKey).digest().subarray(0, 20)
  return extension('2.5.29.14', false, octetString(identifier))
}

function issuedBy(issuer: Issuer, validity: Validity) {
  return {
    issuer: issuer.certificate.subjectName,
    signingKey: issuer.key,
    signingAlgorithm: { name: issuer.key.algorithm.name, hash: 'SHA-256' },
    serialNumber: serialNumber(),
    ...wholeSeconds(validity),
  }
}

/** Rounds outwards, so that a lifetime of one second never becomes zero. */
function wholeSeconds({ notBefore, notAfter }: Validity): { notBefore: Date; notAfter: Date } {
  return {
    notBefore: new Date(Math.floor(notBefore / 1000) * 1000),
    notAfter: new Date(Math.ceil(notAfter / 1000) * 1000),
  }
}

/** Two roots of one trust domain need different names: some verifiers pick the issuer by name alone. */
function caName(organization: string, role: 'root' | 'intermediate' | 'upper intermediate'): x509.JsonName {
  return [{ O: [organization] }, { CN: [`Livery embedded ${role} ${randomBytes(4).toString('hex')}`] }]
}

/** 127 random bits, positive and never zero (RFC 5280, section 4.1.2.2; CA/Browser Forum asks for 64 bits). */
function serialNumber(): string {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40
  return bytes.toString('hex')
}

function rsa(modulusLength: number): RsaHashedKeyGenParams {
  return { name: 'RSASSA-PKCS1-v1_5', modulusLength, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' }
}
