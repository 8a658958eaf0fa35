/** The store on disk: a directory of mode 0700 with one file of mode 0600 for each identity, and one for the roots. */
import { join } from 'node:path'
import { Events } from '../contract/events.ts'
import { type KeyVault, plainKeyVault } from '../contract/key-vault.ts'
import type {
  BootstrapCertificate,
  PendingRequests,
  Store,
  StoredCertificate,
  StoreFailureReport,
} from '../contract/store.ts'
import type { Standing, StoredRoot } from '../contract/trust-anchor.ts'
import { MAX_ROOTS } from '../contract/trust-anchor.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import { isListOfText, splitCertificates } from '../x509/pem.ts'
import { BootstrapPairs } from './bootstrap-pairs.ts'
import { DurableDirectory } from './durable-directory.ts'
import { FilePendingRequests } from './file-pending-requests.ts'
import { reasonOf } from './private-file.ts'
import { readStoreKey, StoreKey } from './store-key.ts'
import {
  decodeStored,
  encodeStored,
  isEntry,
  locate,
  MAX_ROOTS_FILE_BYTES,
  nameOf,
  numberFact,
  type StoredFacts,
  unusable,
  wiping,
  wishFact,
} from './stored-form.ts'

export interface FileStoreOptions {
  /** Made if it is not there. */
  readonly directory: string
  /** The trust domain whose roots are stored. */
  readonly trustDomain: string
  readonly clock: Clock
  /** A directory with pairs (`*.pem`, chain and key) to be served until the CA's first answer. */
  readonly bootstrap?: string
  /** A file with the 32 bytes by which everything in the directory is sealed. Default: nothing is. */
  readonly keyFile?: string
  /** Called once the directory is there, before anything in it is read or changed: rejects if another process has the store. */
  readonly own?: () => Promise<void>
  /** Keeps the keys of pending requests in memory. Default: each as it is. */
  readonly vault?: KeyVault
}

const CERTIFICATE_LABEL = '-----BEGIN CERTIFICATE-----'

/** Writes in the background; disposing it writes what is left. */
export class FileStore implements Store, AsyncDisposable {
  readonly failures = new Events<StoreFailureReport>()
  readonly pending: PendingRequests
  readonly roots: readonly StoredRoot[]
  /** Entries that are not used, and why: one line each. */
  readonly warnings: readonly string[]
  readonly #directory: DurableDirectory
  readonly #bootstrap: BootstrapPairs
  readonly #rootsName: string
  readonly #trustDomainId: string
  /** Files of the previous process that nobody has taken. */
  readonly #untaken: Set<string>

  private constructor(
    trustDomain: string,
    parts: {
      readonly directory: DurableDirectory
      readonly bootstrap: BootstrapPairs
      readonly roots: RootsFile
      readonly vault: KeyVault
    },
  ) {
    const { directory, bootstrap, roots, vault } = parts
    this.#directory = directory
    this.#bootstrap = bootstrap
    this.#rootsName = roots.name
    this.#trustDomainId = `spiffe://${trustDomain}`
    const ours = [...directory.names()].filter(name => isEntry(name, directory.form))
    this.#untaken = new Set(ours.filter(name => name !== roots.name))
    this.roots = roots.roots
    this.warnings = [...directory.warnings, ...bootstrap.warnings, ...roots.warnings]
    directory.onFailure = (name, reason) => this.failures.emit({ name, failure: { kind: 'not-stored', reason } })
    const refused = (identity: SpiffeId, error: unknown) => {
      const reason = `the request that waits for an approval starts again: ${reasonOf(error)}`
      this.failures.emit({ name: identity, failure: { kind: 'not-restored', reason } })
    }
    this.pending = new FilePendingRequests(directory, vault, identity => this.#pendingNameOf(identity), refused)
  }

  /**
   * Rejects with a {@link StoreError} `unusable-directory` if the directory cannot be made or read, others can write to it,
   * or it was sealed with another key; `unusable-key` if the key file is not one that only this user has. Entries that cannot be used are left out, and listed in `warnings`.
   */
  static async open(options: FileStoreOptions): Promise<FileStore> {
    const { directory: path, trustDomain, clock, bootstrap, keyFile, own, vault = plainKeyVault } = options
    const key = keyFile === undefined ? undefined : new StoreKey(await readStoreKey(keyFile), vault)
    const directory = await DurableDirectory.open(path, clock, { key, own })
    const roots = await readRoots(directory, trustDomain)
    return new FileStore(trustDomain, { directory, roots, bootstrap: await BootstrapPairs.open(bootstrap), vault })
  }

  /** The number of changes that are not on disk yet. */
  get unwritten(): number {
    return this.#directory.unwritten
  }

  /** Where it is, as it was configured. */
  get directory(): string {
    return this.#directory.path
  }

  /** Why changes are not on disk; `undefined` while nothing failed. */
  get failure(): string | undefined {
    return this.#directory.failure
  }

  /** When the oldest change came that is not on disk yet, milliseconds since the epoch. */
  get behindSince(): number | undefined {
    return this.#directory.behindSince
  }

  take(identity: SpiffeId): boolean {
    this.#untaken.delete(this.#nameOf(identity))
    this.#untaken.delete(this.#pendingNameOf(identity))
    return this.#directory.has(this.#nameOf(identity)) || this.#bootstrap.has(identity)
  }

  async read(identity: SpiffeId): Promise<StoredCertificate | undefined> {
    const name = this.#nameOf(identity)
    if (!this.#directory.has(name)) return undefined
    const file = await this.#directory.read(name)
    const path = join(this.#directory.path, name)
    return file && wiping(file, () => locate(path, () => decodeCertificate(file, identity)))
  }

  bootstrap(identity: SpiffeId): Promise<BootstrapCertificate | undefined> {
    return this.#bootstrap.read(identity)
  }

  put(identity: SpiffeId, { chain, privateKey, slot, ...facts }: StoredCertificate): void {
    const bytes = encodeStored('certificate', { identity, place: slot, ...facts }, [privateKey, chain])
    void this.#directory.write(this.#nameOf(identity), identity, bytes)
  }

  forget(identity: SpiffeId): void {
    this.#directory.remove(this.#nameOf(identity), identity)
    this.#directory.remove(this.#pendingNameOf(identity), identity)
  }

  putRoots(roots: readonly StoredRoot[]): void {
    const facts = roots.map(({ pem: _, ...fact }) => fact)
    const bytes = encodeStored(
      'roots',
      { trustDomain: this.#trustDomainId, roots: facts },
      roots.map(({ pem }) => Buffer.from(pem)),
    )
    void this.#directory.write(this.#rootsName, this.#trustDomainId, bytes)
  }

  forgetUntaken(): void {
    for (const name of this.#untaken) this.#directory.remove(name, this.#trustDomainId)
    this.#untaken.clear()
  }

  /** Writes pending changes, and nothing more until `reclaim`: another process owns the directory from then on. */
  release(): Promise<void> {
    return this.#directory.release()
  }

  /** The directory is this process's again. A change since `release` is written with the next one. */
  reclaim(): void {
    this.#directory.reclaim()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]()
  }

  #nameOf(identity: SpiffeId): string {
    return nameOf(identity, '', this.#directory.form)
  }

  #pendingNameOf(identity: SpiffeId): string {
    return nameOf(identity, '.pending', this.#directory.form)
  }
}

function decodeCertificate(file: Buffer, identity: SpiffeId): StoredCertificate {
  const { facts, pem } = decodeStored('certificate', file)
  if (facts['identity'] !== identity) throw unusable('is of another identity')
  const end = pem.indexOf(CERTIFICATE_LABEL)
  if (end <= 0) throw unusable('holds no key and certificate')
  return {
    chain: Uint8Array.from(pem.subarray(end)),
    privateKey: Uint8Array.from(pem.subarray(0, end)),
    receivedAt: numberFact(facts, 'receivedAt'),
    slot: numberFact(facts, 'place'),
    wish: wishFact(facts),
    isProvisional: facts['isProvisional'] === true,
    ...(isListOfText(facts['roots']) && { roots: facts['roots'], rootsFor: 'identity' }),
  }
}

interface RootsFile {
  readonly name: string
  readonly roots: readonly StoredRoot[]
  readonly warnings: readonly string[]
}

async function readRoots(directory: DurableDirectory, trustDomain: string): Promise<RootsFile> {
  const name = nameOf(`spiffe://${trustDomain}`, '.roots', directory.form)
  try {
    const file = await directory.read(name, MAX_ROOTS_FILE_BYTES)
    const path = join(directory.path, name)
    return { name, roots: file ? locate(path, () => decodeRoots(file, trustDomain)) : [], warnings: [] }
  } catch (error) {
    const warning = `the stored roots are not used: ${reasonOf(error)}. The CA is asked for them.`
    return { name, roots: [], warnings: [warning] }
  }
}

const STANDINGS: readonly Standing[] = ['listed', 'inferred', 'given-up', 'revoked']

function decodeRoots(file: Buffer, trustDomain: string): StoredRoot[] {
  const { facts, pem } = decodeStored('roots', file)
  const { roots } = facts
  if (facts['trustDomain'] !== `spiffe://${trustDomain}`) throw unusable('is of another trust domain')
  if (!Array.isArray(roots)) throw unusable('has no list of roots')
  const pems = splitCertificates(pem.toString('latin1'))
  return roots.slice(0, MAX_ROOTS).map((fact: StoredFacts, index) => ({
    pem: pems[index] ?? '',
    learnedAt: numberFact(fact, 'learnedAt'),
    settlesAt: numberFact(fact, 'settlesAt'),
    leavesUntil: numberFact(fact, 'leavesUntil'),
    standing: STANDINGS.find(standing => standing === fact['standing']) ?? 'inferred',
    ...(typeof fact['givenUpAt'] === 'number' && { givenUpAt: fact['givenUpAt'] }),
    ...(typeof fact['followedAt'] === 'number' && { followedAt: fact['followedAt'] }),
    ...(fact['isAnnouncing'] === true && { isAnnouncing: true }),
    ...(fact['isHeld'] === true && { isHeld: true }),
  }))
}
