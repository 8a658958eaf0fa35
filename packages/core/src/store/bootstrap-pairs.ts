/** Pairs that an operator has placed in a directory: certificate chain and key in one PEM file, as kubelet has them. */
import { X509Certificate } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { BootstrapCertificate } from '../contract/store.ts'
import { isSpiffeId, type SpiffeId } from '../spiffe/spiffe-id.ts'
import { splitCertificates } from '../x509/pem.ts'
import { readPrivateFile, reasonOf } from './private-file.ts'
import { unusable } from './stored-form.ts'

/** The URI name in the certificate maps a file to its identity; a file is read again when it is used. */
export class BootstrapPairs {
  /** Why files were left out. */
  readonly warnings: readonly string[]
  readonly #files: ReadonlyMap<SpiffeId, string>

  private constructor(files: ReadonlyMap<SpiffeId, string>, warnings: readonly string[]) {
    this.#files = files
    this.warnings = warnings
  }

  /** Reads every `*.pem` of `directory`; without one there are none. Never rejects. */
  static async open(directory: string | undefined): Promise<BootstrapPairs> {
    const files = new Map<SpiffeId, string>()
    const warnings: string[] = []
    for (const path of directory === undefined ? [] : await listPem(directory, warnings)) {
      try {
        const pair = await readPair(path)
        pair?.privateKey.fill(0)
        if (pair) files.set(identityOf(pair.chain), path)
      } catch (error) {
        warnings.push(`bootstrap pair ${path} is not used: ${reasonOf(error)}`)
      }
    }
    return new BootstrapPairs(files, warnings)
  }

  has(identity: SpiffeId): boolean {
    return this.#files.has(identity)
  }

  /** Rejects with a `StoreError` if the file can no longer be used. */
  async read(identity: SpiffeId): Promise<BootstrapCertificate | undefined> {
    const path = this.#files.get(identity)
    return path === undefined ? undefined : await readPair(path)
  }
}

async function listPem(directory: string, warnings: string[]): Promise<readonly string[]> {
  try {
    const names = await readdir(directory)
    return names.filter(name => name.endsWith('.pem')).map(name => join(directory, name))
  } catch (error) {
    warnings.push(`no bootstrap pairs are used: ${directory} cannot be read: ${reasonOf(error)}. Check the path.`)
    return []
  }
}

async function readPair(path: string): Promise<BootstrapCertificate | undefined> {
  const file = await readPrivateFile(path, 'operators')
  if (!file) return undefined
  const privateKey = cutPrivateKey(file)
  const certificates = splitCertificates(file.toString('latin1'))
  if (certificates.length === 0 || !privateKey)
    throw unusable('it lacks a certificate or its unencrypted private key, as PEM. Put both into it')
  const roots = certificates.filter((pem, index) => index > 0 && isSelfIssued(pem))
  const chain = certificates.filter(pem => !roots.includes(pem))
  return { chain: Buffer.from(chain.join('')), privateKey, roots }
}

/** Copies the key out and wipes the original: it never becomes a string. */
function cutPrivateKey(file: Buffer): Uint8Array | undefined {
  const begin = '-----BEGIN '
  for (let start = file.indexOf(begin); start >= 0; start = file.indexOf(begin, start + 1)) {
    const labelEnd = file.indexOf('-----', start + begin.length)
    const label = file.toString('latin1', start + begin.length, Math.min(labelEnd, start + 60))
    if (!/^(?:EC |RSA )?PRIVATE KEY$/.test(label)) continue
    const mark = `-----END ${label}-----`
    const end = file.indexOf(mark, labelEnd)
    if (end < 0) return undefined
    const block = file.subarray(start, end + mark.length)
    const key = Uint8Array.from([...block, 0x0a])
    block.fill(0)
    return key
  }
  return undefined
}

function isSelfIssued(pem: string): boolean {
  const { subject, issuer } = new X509Certificate(pem)
  return subject === issuer
}

function identityOf(chain: Uint8Array): SpiffeId {
  const [, uri] = /(?:^|, )URI:([^,"]+)/.exec(new X509Certificate(chain).subjectAltName ?? '') ?? []
  if (uri === undefined || !isSpiffeId(uri)) throw unusable('its certificate names no SPIFFE ID. Choose another one')
  return uri
}
