/**
 * Replaces cryptography in a simulation: keys of one byte and certificates that are a few numbers in PEM. The
 * judgement of an answer (identity, dates, root) is core's own; only reading and signing are left out.
 */
import {
  type CertificateVerifier,
  createCertificateVerifier,
  derToPem,
  type GeneratedKey,
  type KeyGenerator,
  type SpiffeId,
} from '@livery/core'

/** A leaf of the modelled CA. Times are milliseconds since the epoch. */
interface PlaceholderCertificate {
  readonly identity: SpiffeId
  readonly notBefore: number
  readonly notAfter: number
  readonly serial: number
  /** SHA-256 (hex) of the root's DER. */
  readonly root: string
}

const FINGERPRINT_BYTES = 32
const HEADER_BYTES = 20 + FINGERPRINT_BYTES

/** As PEM, so that it goes the way of a real one. */
export function encodeCertificate({ identity, notBefore, notAfter, serial, root }: PlaceholderCertificate): string {
  const bytes = Buffer.alloc(HEADER_BYTES + identity.length)
  bytes.writeDoubleBE(notBefore, 0)
  bytes.writeDoubleBE(notAfter, 8)
  bytes.writeUInt32BE(serial, 16)
  bytes.write(root, 20, 'hex')
  bytes.write(identity, HEADER_BYTES, 'latin1')
  return derToPem(bytes, 'CERTIFICATE')
}

/** Core's checks over certificates of {@link encodeCertificate}; the roots are real certificates. */
export const placeholderVerifier: CertificateVerifier = createCertificateVerifier(([leaf], { anchors }) => {
  if (!leaf || leaf.length <= HEADER_BYTES) return { unreadable: 0 }
  const serialNumber = leaf.toString('hex', 16, 20)
  const root = leaf.toString('hex', 20, HEADER_BYTES)
  const dates = { notBefore: leaf.readDoubleBE(0), notAfter: leaf.readDoubleBE(8) }
  return {
    uris: [leaf.toString('latin1', HEADER_BYTES)],
    keyMatches: true,
    ...dates,
    isCa: false,
    servesTls: true,
    signsHandshakes: true,
    claimsToCertify: false,
    hasTlsKey: true,
    serialNumber,
    path: anchors.some(anchor => fingerprintOf(anchor.fingerprint256) === root)
      ? { chainPem: '', version: serialNumber, rootFingerprint: root, ...dates }
      : { refused: undefined },
  }
})

/** SHA-256 as core writes it: hex, lower case, without the colons that Node puts in. */
function fingerprintOf(fingerprint256: string): string {
  return fingerprint256.replaceAll(':', '').toLowerCase()
}

const NOTHING = new Uint8Array(1)

/** Answers at once: what keys cost a node is measured by `npm run bench`, and a CA does not see it. */
export const placeholderKeyGenerator: KeyGenerator = {
  name: 'placeholder',
  async generate(): Promise<GeneratedKey> {
    return { privateKeyPem: new Uint8Array(1), csrDer: NOTHING, publicKeyDer: NOTHING }
  },
  generateBatch(requests) {
    return Promise.all(requests.map(request => this.generate(request)))
  },
}
