/** The TLS material of a connection to a CA, from the current files: `tls()` of a plugin's context. */

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { getCACertificates } from 'node:tls'
import {
  CAError,
  ChangingFile,
  type ClientCertificate,
  type PluginLog,
  splitCertificates,
  systemErrorCode,
  type TlsMaterial,
} from '@livery/core/plugin'
import { reasonOf } from '../answers/reason-of.ts'

export interface ConnectionTlsOptions {
  /** A file, `system` for the operating system's roots, or PEM itself; absent: no roots are named. */
  readonly rootCert?: string
  /** Paths of a PEM chain and its key, used as soon as both are there. */
  readonly clientCertificate?: { readonly certFile: string; readonly keyFile: string }
  readonly groups?: readonly string[]
  readonly connected?: (group: string) => void
  readonly log: Pick<PluginLog, 'warn'>
}

/**
 * Reads the files at each call, and resolves with the same object while nothing has changed. A file
 * that has become unreadable keeps its last content, after one warning. Rejects with a local `CAError` `unavailable` while the root was
 * never readable. Throws a `TypeError` for a `rootCert` that is empty, or PEM without a certificate.
 */
export function connectionTls(options: ConnectionTlsOptions): () => Promise<TlsMaterial> {
  const reader = new MaterialReader(options)
  return () => reader.read()
}

const MAX_BYTES = 1_048_576

class MaterialReader {
  readonly #roots: RootSource
  readonly #client: ClientCertificateFiles | undefined
  readonly #log: Pick<PluginLog, 'warn'>
  /** The part that never changes. */
  readonly #fixed: Pick<TlsMaterial, 'groups' | 'connected'>
  readonly #warned = new Map<string, string>()
  #current: TlsMaterial | undefined
  #reading: Promise<TlsMaterial> | undefined

  constructor({ rootCert, clientCertificate, groups, connected, log }: ConnectionTlsOptions) {
    this.#fixed = { ...(groups && { groups }), ...(connected && { connected }) }
    this.#roots = rootSource(rootCert)
    this.#client = clientCertificate && new ClientCertificateFiles(clientCertificate)
    this.#log = log
  }

  read(): Promise<TlsMaterial> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #read(): Promise<TlsMaterial> {
    const old = this.#current
    const roots = await this.#keepingOld('rootCert', this.#roots, old?.roots)
    const clientCertificate =
      this.#client && (await this.#keepingOld('clientCertificate', this.#client.read, old?.clientCertificate))
    if (old && old.roots === roots && old.clientCertificate === clientCertificate) return old
    this.#current = { ...this.#fixed, ...(roots && { roots }), ...(clientCertificate && { clientCertificate }) }
    return this.#current
  }

  /** Files are replaced one after the other, and mounts come late: the previous value stays in use meanwhile. */
  async #keepingOld<T>(field: string, read: () => Promise<T>, old: T | undefined): Promise<T | undefined> {
    try {
      const value = await read()
      this.#warned.delete(field)
      return value
    } catch (error) {
      const reason = reasonOf(error)
      if (old === undefined && field === 'rootCert')
        throw new CAError('unavailable', reason, { local: true, cause: error })
      const message = old === undefined ? reason : `${reason} The old one is used meanwhile.`
      if (this.#warned.get(field) !== message) this.#log.warn(message)
      this.#warned.set(field, message)
      return old
    }
  }
}

type RootSource = () => Promise<Buffer | undefined>

function rootSource(rootCert: string | undefined): RootSource {
  if (rootCert === undefined) return async () => undefined
  if (rootCert === '') throw new TypeError('Cannot use rootCert "": it is empty. Name a file, or "system".')
  if (rootCert === 'system') {
    const roots = once(systemRoots)
    return async () => roots()
  }
  if (rootCert.includes('-----BEGIN')) {
    const roots = checkRoots('The PEM in rootCert', Buffer.from(rootCert))
    return async () => roots
  }
  const file = new ChangingFile(rootCert, MAX_BYTES)
  let checked: { readonly bytes: Buffer; readonly roots: Buffer } | undefined
  return async () => {
    const bytes = await named(`Cannot read the CA's root ${rootCert}`, file.read())
    if (!checked?.bytes.equals(bytes)) checked = { bytes, roots: checkRoots(`The CA's root ${rootCert}`, bytes) }
    return checked.roots
  }
}

/** The certificate and key that this client presents, if the files exist. */
class ClientCertificateFiles {
  readonly #certificate: ChangingFile
  readonly #key: ChangingFile
  #pair: ClientCertificate | undefined

  constructor({ certFile, keyFile }: { readonly certFile: string; readonly keyFile: string }) {
    this.#certificate = new ChangingFile(certFile, MAX_BYTES)
    this.#key = new ChangingFile(keyFile, MAX_BYTES)
  }

  /** `undefined` while neither file is there; rejects if they do not belong together. */
  readonly read = async (): Promise<ClientCertificate | undefined> => {
    const [certificate, key] = await Promise.all([readIfThere(this.#certificate), readIfThere(this.#key)])
    if (!certificate && !key) return undefined
    if (!certificate || !key)
      throw new Error(`${certificate ? this.#key.path : this.#certificate.path} is missing: put it beside the other.`)
    if (!this.#pair?.certificate.equals(certificate) || !this.#pair.key.equals(key)) {
      if (!isPair(certificate, key))
        throw new Error(`${this.#certificate.path} and ${this.#key.path} do not belong together: renew both.`)
      this.#pair = { certificate, key }
    }
    return this.#pair
  }
}

async function readIfThere(file: ChangingFile): Promise<Buffer | undefined> {
  try {
    return await file.read()
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined
    throw await named(`Cannot read ${file.path}`, Promise.reject(error))
  }
}

function isPair(certificate: Buffer, key: Buffer): boolean {
  try {
    return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))
  } catch {
    return false
  }
}

function systemRoots(): Buffer {
  const roots = getCACertificates('system')
  if (roots.length > 0) return Buffer.from(roots.join('\n'))
  throw new Error('Cannot use rootCert "system": the system has no roots. Install ca-certificates, or name a file.')
}

/** Encodes only what was parsed: TLS libraries also read blocks with other labels, which nothing has checked. */
function checkRoots(what: string, pem: Buffer): Buffer {
  let certificates: readonly X509Certificate[]
  try {
    certificates = splitCertificates(pem.toString()).map(certificate => new X509Certificate(certificate))
  } catch {
    throw new TypeError(`${what} holds a certificate that cannot be parsed. Replace it with the CA's root as PEM.`)
  }
  if (certificates.length > 0) return Buffer.from(certificates.join(''))
  throw new TypeError(`${what} holds no certificate. Replace it with the CA's root as PEM.`)
}

async function named<T>(what: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    const reason = reasonOf(error)
    throw new Error(`${what}: ${reason}. Put it there, or correct the path.`, { cause: error })
  }
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
