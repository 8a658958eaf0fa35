/** Reads chains with node:crypto, for machines without the addon: it judges paths less strictly (`chain-path.ts`). */
import { createHash, createPrivateKey, createPublicKey, type X509Certificate } from 'node:crypto'
import {
  type ChainFacts,
  type Expectation,
  MAX_CLOCK_SKEW_MS,
  type ReadChain,
} from '../contract/certificate-verifier.ts'
import { createCertificateVerifier } from './ca-answer-verifier.ts'
import { type Certificate, readCertificate } from './certificate.ts'
import { findPath, keyKindOf, servesTls } from './chain-path.ts'
import { derToPem } from './pem.ts'

export const nodeCertificateVerifier = createCertificateVerifier(readWithNode)

function readWithNode(chain: readonly Buffer[], expected: Expectation): ReturnType<ReadChain> {
  const certificates: Certificate[] = []
  const unread: { readonly unreadable: number; readonly cause: unknown }[] = []
  for (const [index, der] of chain.entries()) {
    try {
      certificates.push(readCertificate(der))
    } catch (cause) {
      if (index === 0) return { unreadable: 0, cause }
      unread.push({ unreadable: index, cause })
    }
  }
  const [leaf] = certificates
  if (!leaf) return { unreadable: 0 }
  const { names, isCa, keyUsage, notBefore, notAfter } = leaf
  const path = pathOf(certificates, expected)
  const [unreadable] = unread
  if (unreadable && 'refused' in path && path.refused === undefined) return unreadable
  return {
    ...names,
    keyMatches: compareKey(leaf.publicKey, expected.key),
    notBefore,
    notAfter,
    isCa,
    servesTls: servesTls(leaf),
    signsHandshakes: keyUsage?.digitalSignature ?? true,
    claimsToCertify: keyUsage !== undefined && (keyUsage.keyCertSign || keyUsage.cRLSign),
    hasTlsKey: ['rsa', 'ec'].includes(keyKindOf(leaf) ?? ''),
    serialNumber: leaf.x509.serialNumber,
    path,
  }
}

function compareKey(publicKey: Buffer, key: Expectation['key']): boolean | undefined {
  if ('publicKeyDer' in key) return publicKey.equals(key.publicKeyDer)
  try {
    const privateKey = createPrivateKey({ key: Buffer.from(key.privateKeyPem), format: 'pem' })
    return publicKey.equals(createPublicKey(privateKey).export({ type: 'spki', format: 'der' }))
  } catch {
    // The cause could quote the key.
    return undefined
  }
}

function pathOf(chain: readonly Certificate[], { anchors, now }: Expectation): ChainFacts['path'] {
  const found = findPath(chain, anchors.map(readAnchor), { now, latestNotBefore: now + MAX_CLOCK_SKEW_MS })
  const root = 'refused' in found ? undefined : anchors[found.anchor]
  if ('refused' in found || !root) return 'refused' in found ? found : { refused: undefined }
  const version = createHash('sha256')
  for (const { der } of found.certificates) version.update(der)
  return {
    chainPem: found.certificates.map(({ der }) => derToPem(der, 'CERTIFICATE')).join(''),
    version: version.digest('hex'),
    rootFingerprint: createHash('sha256').update(root.raw).digest('hex'),
    notBefore: found.notBefore,
    notAfter: found.notAfter,
  }
}

const readAnchors = new WeakMap<X509Certificate, { readonly certificate: Certificate | undefined }>()

/** Reads each root once; one that cannot be read leads nowhere. */
function readAnchor(x509: X509Certificate): Certificate | undefined {
  const known = readAnchors.get(x509)
  if (known) return known.certificate
  let certificate: Certificate | undefined
  try {
    certificate = readCertificate(x509.raw, x509)
  } catch {} // its form is not DER
  readAnchors.set(x509, { certificate })
  return certificate
}
