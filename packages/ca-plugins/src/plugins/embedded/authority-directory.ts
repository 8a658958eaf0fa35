/**
 * The embedded CA's state on disk. `authority.json` is the one source of truth, replaced whole, so that keys always
 * match certificates; `root.pem` beside it is the trust bundle, written for others to copy.
 */
import { systemErrorCode } from '@livery/core/plugin'
import 'reflect-metadata'
import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import { link, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StoreError } from '@livery/core'
import { preparePrivateFolder, readPrivateFile, splitCertificates } from '@livery/core/plugin'
import * as x509 from '@peculiar/x509'
import { reasonOf } from '../../answers/reason-of.ts'
import { type Anchor, type AuthorityState, rootId } from './authority-state.ts'
import { exportPrivateKey, type Issuer, toIssuer } from './certificate-profiles.ts'

const STATE_FILE = 'authority.json'
const BUNDLE_FILE = 'root.pem'

interface StoredIssuer {
  readonly certificate: string
  readonly privateKey: string
}
interface StoredState {
  readonly version: 1
  readonly trustDomain: string
  readonly signingRoot: string
  readonly anchors: readonly { readonly root: StoredIssuer; readonly intermediate?: StoredIssuer }[]
}

/** A directory (mode 0700) with the state of one {@link AuthorityState}; its files have mode 0600. */
export class AuthorityDirectory {
  readonly #path: string
  /** The content of the state file when this process last read or wrote it. */
  #seen = ''

  private constructor(path: string) {
    this.#path = path
  }

  /** Makes the directory, or closes one that others could look into. Throws if others could have changed its content. */
  static async open(path: string, warn: (message: string) => void): Promise<AuthorityDirectory> {
    try {
      for (const change of await preparePrivateFolder(path)) warn(change)
    } catch (error) {
      throw new Error(`Cannot keep a CA in ${path}. ${reasonOf(error)}`, { cause: error })
    }
    return new AuthorityDirectory(path)
  }

  /** The state of a former run, or `undefined` in an empty directory. Throws, and changes nothing, if it is not whole. */
  async load(): Promise<AuthorityState | undefined> {
    // The order matters, since another process may be writing its first state: a bundle is never there before it.
    const bundle = await this.#read(BUNDLE_FILE, 'operators')
    const text = await this.#read(STATE_FILE, 'ours')
    if (text === undefined && bundle === undefined) return undefined
    if (text === undefined)
      throw this.#broken(`it has ${BUNDLE_FILE} but no ${STATE_FILE}, which holds the signing key`)
    const state = await this.#parse(text)
    const roots = new Set(state.anchors.map(anchor => anchor.root.pem))
    if (bundle !== undefined && !splitCertificates(bundle).some(root => roots.has(root)))
      throw this.#broken(`${BUNDLE_FILE} holds no root of ${STATE_FILE}`)
    this.#seen = text
    // A run that was stopped between the two files leaves an older bundle.
    if (bundle !== bundleOf(state)) await this.#write(BUNDLE_FILE, bundleOf(state), rename)
    return state
  }

  /** Writes the first state of an empty directory. If another process was first, its state is loaded instead. */
  async create(state: AuthorityState): Promise<AuthorityState> {
    const text = serialize(state)
    try {
      // Unlike rename, link never replaces a file.
      await this.#write(STATE_FILE, text, link)
    } catch (error) {
      if (systemErrorCode(error) === 'EEXIST') return (await this.load()) ?? state
      throw new Error(
        `Cannot create a CA in ${this.#path}: ${reasonOf(error)}. Name a directory that this user may write to.`,
        { cause: error },
      )
    }
    this.#seen = text
    await this.#write(BUNDLE_FILE, bundleOf(state), rename)
    return state
  }

  /** Replaces the state; throws if another process has changed it since. */
  async save(state: AuthorityState): Promise<void> {
    if ((await this.#read(STATE_FILE, 'ours')) !== this.#seen)
      throw new Error(
        `Cannot save the CA to ${this.#path}: another process has changed ${STATE_FILE}. Restart this one to take it up.`,
      )
    const text = serialize(state)
    await this.#write(STATE_FILE, text, rename)
    this.#seen = text
    await this.#write(BUNDLE_FILE, bundleOf(state), rename)
  }

  /** `ours`: nobody else can have read it. `operators`: nobody else can have written it. */
  async #read(name: string, trust: 'ours' | 'operators'): Promise<string | undefined> {
    try {
      return (await readPrivateFile(join(this.#path, name), trust))?.toString()
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      const remedy = 'To start a new CA with a new root, remove the directory.'
      throw new Error(`Cannot use the CA in ${this.#path}: ${error.message}. ${remedy}`, { cause: error })
    }
  }

  async #write(name: string, text: string, publish: (from: string, to: string) => Promise<void>): Promise<void> {
    const path = join(this.#path, name)
    const temporary = `${path}.${randomBytes(6).toString('hex')}`
    try {
      await using file = await open(temporary, 'wx', 0o600)
      await file.writeFile(text)
      await file.sync()
      await publish(temporary, path)
    } finally {
      await rm(temporary, { force: true })
    }
    await using directory = await open(this.#path)
    await directory.sync()
  }

  async #parse(text: string): Promise<AuthorityState> {
    const stored = this.#parseJson(text)
    const anchors = await Promise.all(stored.anchors.map(anchor => this.#restoreAnchor(anchor)))
    const signing = anchors.find(anchor => anchor.id === stored.signingRoot)
    if (!signing) throw this.#broken(`its signing root ${stored.signingRoot} is none of its roots`)
    return { trustDomain: stored.trustDomain, anchors, signing }
  }

  #parseJson(text: string): StoredState {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      // The parser's own message quotes the text, which holds keys.
      throw this.#broken(`${STATE_FILE} is not valid JSON`)
    }
    if (!isStoredState(value)) throw this.#broken(`${STATE_FILE} is not in the form of version 1`)
    return value
  }

  async #restoreAnchor(stored: StoredState['anchors'][number]): Promise<Anchor> {
    const root = await this.#restoreIssuer('root', stored.root)
    const id = rootId(root)
    if (!new X509Certificate(root.pem).verify(new X509Certificate(root.pem).publicKey))
      throw this.#broken(`the root ${id} is not self-signed`)
    if (!stored.intermediate) return { id, root }
    const intermediate = await this.#restoreIssuer('intermediate', stored.intermediate)
    if (!new X509Certificate(intermediate.pem).verify(new X509Certificate(root.pem).publicKey))
      throw this.#broken(`its intermediate is not signed by the root ${id}`)
    return { id, root, intermediate }
  }

  async #restoreIssuer(role: string, stored: StoredIssuer): Promise<Issuer> {
    const certificate = this.#attempt(`the certificate of its ${role}`, () => new X509Certificate(stored.certificate))
    const key = this.#attempt(`the private key of its ${role}`, () => createPrivateKey(stored.privateKey))
    if (!certificate.checkPrivateKey(key))
      throw this.#broken(`the key of its ${role} does not belong to the certificate`)
    const imported = await crypto.subtle.importKey(
      'pkcs8',
      key.export({ type: 'pkcs8', format: 'der' }),
      certificate.publicKey.asymmetricKeyType === 'ec'
        ? { name: 'ECDSA', namedCurve: curveOf(certificate) }
        : { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
      true,
      ['sign'],
    )
    return toIssuer(new x509.X509Certificate(certificate.raw), imported)
  }

  #attempt<T>(what: string, parse: () => T): T {
    try {
      return parse()
    } catch {
      throw this.#broken(`${what} cannot be parsed`)
    }
  }

  #broken(reason: string): Error {
    return new Error(
      `Cannot load the CA from ${this.#path}: ${reason}. Restore the directory from a backup, or remove it to start a new CA with a new root.`,
    )
  }
}

function bundleOf(state: AuthorityState): string {
  return state.anchors.map(anchor => anchor.root.pem).join('')
}

function serialize(state: AuthorityState): string {
  const stored: StoredState = {
    version: 1,
    trustDomain: state.trustDomain,
    signingRoot: state.signing.id,
    anchors: state.anchors.map(({ root, intermediate }) => ({
      root: storeIssuer(root),
      ...(intermediate && { intermediate: storeIssuer(intermediate) }),
    })),
  }
  return `${JSON.stringify(stored, undefined, 2)}\n`
}

function storeIssuer({ pem, key }: Issuer): StoredIssuer {
  return { certificate: pem, privateKey: exportPrivateKey(key) }
}

function isStoredState(value: unknown): value is StoredState {
  return (
    isRecord(value) &&
    value['version'] === 1 &&
    typeof value['trustDomain'] === 'string' &&
    typeof value['signingRoot'] === 'string' &&
    Array.isArray(value['anchors']) &&
    value['anchors'].every(
      (anchor: unknown) =>
        isRecord(anchor) &&
        isStoredIssuer(anchor['root']) &&
        (anchor['intermediate'] === undefined || isStoredIssuer(anchor['intermediate'])),
    )
  )
}

function isStoredIssuer(value: unknown): value is StoredIssuer {
  return isRecord(value) && typeof value['certificate'] === 'string' && typeof value['privateKey'] === 'string'
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function curveOf(certificate: X509Certificate): string {
  return certificate.publicKey.asymmetricKeyDetails?.namedCurve === 'secp384r1' ? 'P-384' : 'P-256'
}
