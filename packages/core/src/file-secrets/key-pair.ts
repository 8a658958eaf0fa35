/** A certificate chain and its key, read from two files (or one) and checked as a pair. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import type { KeyVault } from '../contract/key-vault.ts'
import { readSmallFile } from '../files/changing-file.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { type CertificateDates, datesOf } from '../x509/certificate.ts'
import { pemBlocks } from '../x509/pem-blocks.ts'
import { FileFault, readFault } from './file-fault.ts'

export const MAX_FILE_BYTES = 1_048_576
/** Core refuses chains of over ten certificates, not counting the roots. */
const MAX_CERTIFICATES = 20
const MIN_RSA_BITS = 2048
/** P-256, P-384 and P-521, as OpenSSL names them. */
const CURVES: readonly unknown[] = ['prime256v1', 'secp384r1', 'secp521r1']

export interface KeyPairFiles {
  readonly chain: string
  readonly key: string
}

export interface KeyPair {
  /** PEM, leaf first, without roots. */
  readonly chain: readonly string[]
  /** One PEM block, newline at the end; in separate memory. */
  readonly privateKey: Buffer
  /** SHA-256 of both. */
  readonly version: string
  /** SHA-256 (hex) of the chain's DER. */
  readonly chainVersion: string
  /** The leaf's, in lower-case hex. */
  readonly serialNumber: string
  /** Milliseconds since the epoch. */
  readonly notBefore: number
  readonly notAfter: number
}

export interface KeyPairOptions {
  /** The identity that the leaf must carry. Default: any. */
  readonly identity?: SpiffeId
  /** The time at which the leaf must not have ended, milliseconds since the epoch. Default: it may have ended. */
  readonly now?: number
  readonly vault?: KeyVault | undefined
  /** Reads one file. Default: {@link readSmallFile}. */
  readonly read?: (file: string) => Promise<Buffer>
}

/**
 * The pair that the files hold now. Rejects with a {@link FileFault} unless they are a chain, leaf first, that fits the
 * options, and its key. The caller judges everything else.
 */
export async function readKeyPair(
  files: KeyPairFiles,
  { identity, now, vault, read = file => readSmallFile(file, MAX_FILE_BYTES) }: KeyPairOptions,
): Promise<KeyPair> {
  const [chain, key] = await Promise.allSettled([read(files.chain), read(files.key)])
  try {
    if (chain.status === 'rejected') throw readFault(files.chain, chain.reason, key.status === 'fulfilled')
    if (key.status === 'rejected') throw readFault(files.key, key.reason, true)
    const certificates = parseCertificates(files.chain, chain.value)
    const [leaf, ...issuers] = certificates
    const dates = checkedDates(files.chain, leaf)
    if (identity !== undefined) checkIdentity(files.chain, leaf, identity)
    const privateKey = keyBlock(files.key, key.value)
    try {
      checkKey(files, leaf, parseKey(files.key, privateKey, vault))
      if (now !== undefined) checkEnd(files.chain, dates, now)
    } catch (error) {
      privateKey.fill(0)
      throw error
    }
    const sent = [leaf, ...issuers.filter(issuer => !isSelfSigned(issuer))]
    return {
      chain: sent.map(certificate => certificate.toString()),
      privateKey,
      version: versionOf(sent, privateKey),
      chainVersion: versionOf(sent),
      serialNumber: leaf.serialNumber.toLowerCase(),
      ...dates,
    }
  } finally {
    if (key.status === 'fulfilled') key.value.fill(0)
    // The same file may hold the key.
    if (chain.status === 'fulfilled') chain.value.fill(0)
  }
}

export function isSelfSigned(certificate: X509Certificate): boolean {
  return certificate.checkIssued(certificate)
}

type NotEmpty<T> = readonly [T, ...T[]]

function parseCertificates(file: string, bytes: Buffer): NotEmpty<X509Certificate> {
  const blocks = pemBlocks(bytes).filter(({ label }) => label === 'CERTIFICATE')
  const remedy = 'Write the whole chain as PEM, the leaf first'
  const fault = (reason: string) => new FileFault({ file, reason, remedy, mayPass: true })
  if (blocks.length > MAX_CERTIFICATES)
    throw fault(`it has ${blocks.length} certificates, more than ${MAX_CERTIFICATES}`)
  const [leaf, ...others] = blocks.map(({ bytes: block }, index) => {
    if (!block) throw fault(`it ends within certificate ${index + 1}`)
    try {
      return new X509Certificate(block)
    } catch {
      throw fault(`its certificate ${index + 1} cannot be parsed`)
    }
  })
  if (!leaf) throw fault(bytes.length === 0 ? 'it is empty' : 'it has no PEM certificate')
  return [leaf, ...others]
}

function checkedDates(file: string, leaf: X509Certificate): CertificateDates {
  const dates = datesOf(leaf)
  if (dates) return dates
  const reason = 'its first certificate has a date that cannot be read'
  throw new FileFault({ file, reason, remedy: 'Have it issued again' })
}

function checkIdentity(file: string, leaf: X509Certificate, identity: SpiffeId): void {
  const uris = (leaf.subjectAltName ?? '').split(', ').filter(name => name.startsWith('URI:'))
  if (uris.includes(`URI:${identity}`)) return
  const others = uris.map(uri => uri.slice('URI:'.length)).join(', ')
  throw new FileFault({
    file,
    reason: `its first certificate is for ${others.slice(0, 300) || 'no SPIFFE ID'}, not for ${identity}`,
    remedy: "Write the identity's certificate there; for several identities, use a placeholder in folder or chain",
  })
}

/** Only the private key's block, with PEM line ends. */
function keyBlock(file: string, bytes: Buffer): Buffer {
  const found = pemBlocks(bytes).find(({ label }) => label.endsWith('PRIVATE KEY'))
  const fault = (reason: string, remedy: string, mayPass = true) => new FileFault({ file, reason, remedy, mayPass })
  if (!found) throw fault(bytes.length === 0 ? 'it is empty' : 'it has no PEM private key', 'Write the key as PEM')
  if (!found.bytes) throw fault('it ends within the private key', 'Write the whole key')
  // PKCS#8 marks encryption in the label, the older form in a header.
  if (found.label.startsWith('ENCRYPTED') || found.bytes.includes('Proc-Type: 4,ENCRYPTED'))
    throw fault('its key is encrypted', 'Write it without a passphrase: openssl pkey -in FILE -out FILE.new', false)
  const lines = found.bytes.filter(byte => byte !== 0x0d)
  const block = Buffer.alloc(lines.length + 1, '\n')
  block.set(lines)
  lines.fill(0)
  return block
}

/**
 * The public key, read by the vault if it can, which leaves no copy in memory: a key object keeps one until it is
 * collected.
 */
function parseKey(file: string, block: Buffer, vault: KeyVault | undefined): KeyObject {
  try {
    const publicKey = vault?.publicKeyOf?.(block)
    if (publicKey) return createPublicKey({ key: Buffer.from(publicKey), format: 'der', type: 'spki' })
    return createPrivateKey({ key: block, format: 'pem' })
  } catch {
    throw new FileFault({ file, reason: 'its key cannot be parsed', remedy: 'Write the whole key', mayPass: true })
  }
}

function checkKey(files: KeyPairFiles, leaf: X509Certificate, key: KeyObject): void {
  const unfit = unfitness(key)
  if (unfit !== undefined)
    throw new FileFault({
      file: files.key,
      reason: `its key is ${unfit}, which Envoy does not take`,
      remedy: `Have an ECDSA key on P-256, P-384 or P-521 made, or RSA of at least ${MIN_RSA_BITS} bits`,
    })
  if (isKeyOf(leaf, key)) return
  throw new FileFault({
    file: files.key,
    reason: `its key does not match the first certificate in ${files.chain}`,
    remedy: 'Write the key and the chain of one issuance, the leaf first',
    mayPass: true,
  })
}

function isKeyOf(leaf: X509Certificate, key: KeyObject): boolean {
  return key.type === 'public' ? leaf.publicKey.equals(key) : leaf.checkPrivateKey(key)
}

function unfitness({ asymmetricKeyType: type, asymmetricKeyDetails = {} }: KeyObject): string | undefined {
  const { modulusLength = 0, namedCurve = 'an unnamed curve' } = asymmetricKeyDetails
  if (type === 'ec') return CURVES.includes(namedCurve) ? undefined : `ECDSA on ${namedCurve}`
  if (type === 'rsa') return modulusLength < MIN_RSA_BITS ? `RSA of ${modulusLength} bits` : undefined
  return String(type)
}

function checkEnd(file: string, { notAfter }: CertificateDates, now: number): void {
  if (notAfter > now) return
  throw new FileFault({
    file,
    reason: `its first certificate ended at ${new Date(notAfter).toISOString()}, and now is ${new Date(now).toISOString()}`,
    remedy: 'Look at what should have renewed it, and at the clocks',
  })
}

function versionOf(chain: readonly X509Certificate[], privateKey?: Buffer): string {
  const version = createHash('sha256')
  for (const { raw } of chain) version.update(raw)
  if (privateKey) version.update(privateKey)
  return version.digest('hex')
}
