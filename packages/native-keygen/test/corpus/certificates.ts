/** The certificates that the corpus is made of: a root, two intermediates, and leaves with any part replaced. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import * as forge from '../certificate-forge.ts'

const { der, sequence } = forge
export const MINUTE = 60_000
export const HOUR = 60 * MINUTE

export const now = Date.UTC(2026, 10, 21, 12, 0, 0, 500)
export const identity = 'spiffe://cluster.local/ns/default/sa/web'

export interface Issuer extends forge.Signer {
  readonly der: Buffer
}

export const ecKey = (namedCurve = 'P-256') => generateKeyPairSync('ec', { namedCurve }).privateKey
export const rsaKey = (modulusLength = 2048) => generateKeyPairSync('rsa', { modulusLength }).privateKey

export function validity(from: number, to: number): Buffer {
  return sequence(forge.time(from), forge.time(to))
}

export type Overrides = Partial<forge.Parts>

export const CA_CONSTRAINTS = forge.basicConstraints({ ca: true })
export const CA_KEY_USAGE = forge.keyUsage(5, 6)
export const CA_EXTENSIONS = [CA_CONSTRAINTS, CA_KEY_USAGE]

/** A CA certificate, self-signed without a parent. */
export function makeIssuer(
  commonName: string,
  {
    parent,
    key = ecKey(),
    scheme = forge.ECDSA_SHA256,
    ...parts
  }: { parent?: forge.Signer; key?: KeyObject; scheme?: forge.SignatureScheme } & Overrides = {},
): Issuer {
  const self = { subject: parts.subject ?? forge.name(commonName), key, scheme }
  const tbs = forge.tbsCertificate(
    {
      validity: validity(now - HOUR, now + 1_000 * HOUR),
      subject: self.subject,
      publicKey: forge.spki(key),
      extensions: CA_EXTENSIONS,
      ...parts,
    },
    parent ?? self,
  )
  return { ...self, der: forge.signed(tbs, parent ?? self) }
}

export const leafKey = ecKey()
export const root = makeIssuer('root')
export const middle = makeIssuer('middle', { parent: root })
export const low = makeIssuer('low', { parent: middle })

export const LEAF_EXTENSIONS = {
  basicConstraints: forge.basicConstraints({ ca: false }),
  keyUsage: forge.keyUsage(0),
  extendedKeyUsage: forge.extendedKeyUsage(forge.SERVER_AUTH, forge.CLIENT_AUTH),
  subjectAltName: forge.subjectAltName(forge.uri(identity)),
}

/** The signed part of a good leaf, but for what is overridden. */
export function leafTbs(issuer: forge.Signer, parts: Overrides = {}): Buffer {
  return forge.tbsCertificate(
    {
      validity: validity(now - MINUTE, now + HOUR),
      subject: forge.NO_NAME,
      publicKey: forge.spki(leafKey),
      extensions: Object.values(LEAF_EXTENSIONS),
      ...parts,
    },
    issuer,
  )
}

export const leaf = (issuer: forge.Signer, parts: Overrides = {}) => forge.signed(leafTbs(issuer, parts), issuer)

/** The TBSCertificate of a certificate that is longer than 255 bytes. */
export function signedPartOf(certificate: Buffer): Buffer {
  return certificate.subarray(4, 8 + certificate.readUInt16BE(6))
}

export const withExtension = (...more: readonly Buffer[]) => ({
  extensions: [...Object.values(LEAF_EXTENSIONS), ...more],
})
export const withExtensions = (changed: Partial<typeof LEAF_EXTENSIONS>) => ({
  extensions: Object.values({ ...LEAF_EXTENSIONS, ...changed }),
})
export const withNames = (...names: readonly Buffer[]) =>
  withExtensions({ subjectAltName: forge.subjectAltName(...names) })
export const withDates = (from: number, to: number) => ({ validity: validity(from, to) })

/** SubjectPublicKeyInfo that OpenSSL reads and cannot write: a point at infinity. */
export const NO_POINT = sequence(
  sequence(forge.oid('1.2.840.10045.2.1'), forge.oid('1.2.840.10045.3.1.7')),
  der(0x03, Buffer.of(0, 0)),
)
