/** The roots in one file, parsed a few in a turn of the event loop: a system has 150 of them. */
import { createHash, X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import type { CertificateVerifier } from '../contract/certificate-verifier.ts'
import { pemBlocks } from '../x509/pem-blocks.ts'
import { FileFault, readFault } from './file-fault.ts'

const MAX_ROOTS_IN_FILE = 1_000
/** 16 take about half a millisecond. */
const ROOTS_IN_A_TURN = 16

/** Where operating systems keep their roots: Debian, older Red Hat, openSUSE, OpenELEC, Red Hat, Alpine, FreeBSD, Talos. */
export const SYSTEM_ROOT_FILES: readonly string[] = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/pki/tls/cacert.pem',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/ssl/cert.pem',
  '/usr/local/etc/ssl/cert.pem',
  '/etc/ssl/certs/ca-certificates',
]

/** The first of them that exists. */
export function systemRootsFile(files: readonly string[] = SYSTEM_ROOT_FILES): string | undefined {
  return files.find(file => existsSync(file))
}

export interface RootsFileContent {
  /** PEM, sorted by fingerprint, without duplicates. */
  readonly pem: Buffer
  /** SHA-256 (hex) of the sorted fingerprints. */
  readonly version: string
  /** Certificates that are left out, since Livery or Envoy cannot read them. */
  readonly skipped: number
}

export interface RootsFileReader extends Pick<CertificateVerifier, 'readsRoot'> {
  readonly read: (file: string) => Promise<Buffer>
}

/** Rejects with a {@link FileFault} unless `file` ends after a whole block and has at least one root. */
export async function readRootsFile(file: string, { read, readsRoot }: RootsFileReader): Promise<RootsFileContent> {
  const bytes = await read(file).catch((error: unknown) => {
    throw readFault(file, error, true)
  })
  try {
    return await parse(file, bytes, readsRoot)
  } finally {
    // A key may stand beside them.
    bytes.fill(0)
  }
}

async function parse(file: string, bytes: Buffer, readsRoot: RootsFileReader['readsRoot']): Promise<RootsFileContent> {
  const blocks = pemBlocks(bytes)
  const fault = (reason: string) => new FileFault({ file, reason, remedy: 'Write the roots as PEM', mayPass: true })
  if (blocks.length > MAX_ROOTS_IN_FILE)
    throw fault(`it has ${blocks.length} PEM blocks, more than ${MAX_ROOTS_IN_FILE}`)
  if (blocks.at(-1)?.bytes === undefined)
    throw fault(blocks.length > 0 ? 'it ends within a certificate' : 'it has no PEM certificate')
  const roots = new Map<string, string>()
  let skipped = 0
  for (const [index, { label, bytes: block }] of blocks.entries()) {
    if (index % ROOTS_IN_A_TURN === ROOTS_IN_A_TURN - 1) await setImmediate()
    if (label !== 'CERTIFICATE' || !block) continue
    const root = parseRoot(block)
    if (root && readsRoot?.(root) !== false)
      roots.set(createHash('sha256').update(root.raw).digest('hex'), root.toString())
    else skipped++
  }
  if (roots.size === 0) throw fault('it has no certificate that can be read')
  const sorted = [...roots].sort(([a], [b]) => (a < b ? -1 : 1))
  const version = createHash('sha256')
  for (const [fingerprint] of sorted) version.update(fingerprint)
  return { pem: Buffer.from(sorted.map(([, pem]) => pem).join('')), version: version.digest('hex'), skipped }
}

function parseRoot(block: Buffer): X509Certificate | undefined {
  try {
    return new X509Certificate(block)
  } catch {
    return undefined
  }
}
