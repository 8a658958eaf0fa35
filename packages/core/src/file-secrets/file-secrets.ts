/** The secrets that others write, in files and in Kubernetes, and tokens: each is read once for all its streams. */

import type { CertificateVerifier } from '../contract/certificate-verifier.ts'
import type { KeyVault } from '../contract/key-vault.ts'
import { SealedKey } from '../contract/key-vault.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import { readSmallFile } from '../files/changing-file.ts'
import { stampsOf } from '../files/file-stamp.ts'
import { WatchedFiles } from '../files/watched-files.ts'
import { CertificateSecret } from '../secrets/certificate-secret.ts'
import { type SecretItem, TrustBundleSecret } from '../secrets/secret-item.ts'
import type { FileSecretName, TokenName } from '../secrets/secret-name.ts'
import type { Listener } from '../secrets/watch.ts'
import type { Clock } from '../time/clock.ts'
import { Semaphore } from '../time/semaphore.ts'
import { AllowedFolders } from './allowed-folders.ts'
import { FileSecret, type FileSecretEntry, type LoadedSecret, type SecretPlace } from './file-secret.ts'
import { formatFileName, isOfSecret, pathsOf, SYSTEM_ROOTS } from './file-secret-name.ts'
import { type KeyPairFiles, MAX_FILE_BYTES, readKeyPair } from './key-pair.ts'
import type { KubernetesName } from './kubernetes-name.ts'
import { type LoadParts, objectPlace, objectsOf, type SecretObjects } from './object-place.ts'
import { readRootsFile, SYSTEM_ROOT_FILES, systemRootsFile } from './roots-file.ts'
import { type PodTokenSource, tokenPlace } from './token-place.ts'

/** How many files, and how many objects, are read at once. */
const READS_AT_ONCE = 16
/** Names that are watched at once, for all callers together: each costs about 20 kB. */
const MAX_NAMES = 4_000

/** How long files that are not whole count as being written, milliseconds. */
const FILES_WAIT_MS = 10_000
const NO_OBJECTS = 'is in Kubernetes, and this agent reads no Secrets there: set kubernetesSecrets.namespaces'
const NO_TOKENS = 'is a token of a pod, and this agent knows no pods: set kubernetes'

/** The defaults of the options, also for display. */
export const FILE_DEFAULTS = { expired: 'withhold', pollMs: 60_000 } as const

export interface FileSecretsOptions {
  readonly clock: Clock
  readonly vault: KeyVault
  /** Judges which roots Envoy can read; others are left out. */
  readonly verifier?: Pick<CertificateVerifier, 'readsRoot'>
  /** The folders in which files may be named, absolute; the target of every link must be below one of them. */
  readonly folders: readonly string[]
  /** The Secrets of Kubernetes that may be named. Default: none. */
  readonly objects?: SecretObjects
  /** The tokens of pods. Default: none. */
  readonly tokens?: PodTokenSource
  /** The rule for a certificate that has ended: `withhold` (default) withdraws it, `serve` serves it with a warning. */
  readonly expired?: 'serve' | 'withhold'
  /** How often files are looked at, whatever the watches report, milliseconds. Default: 60,000. */
  readonly pollMs?: number
  /** The file of `file-root:system` is the first of these that exists. Default: where operating systems have it. */
  readonly systemRoots?: readonly string[]
  /** Called when files cannot be watched, once for each error code; they are polled then. */
  readonly onWatchError: (error: unknown) => void
  /** Called with each event of a name. */
  readonly report: (name: string, event: SecretEvent) => void
}

/** Watches a name while somebody is subscribed to it, and a Secret of Kubernetes for a while longer. */
export class FileSecrets implements Disposable {
  readonly #options: FileSecretsOptions & Required<Pick<FileSecretsOptions, 'expired' | 'pollMs'>>
  #folders: AllowedFolders
  readonly #watched: WatchedFiles
  readonly #reads = new Semaphore(READS_AT_ONCE)
  /** Separate, so that an API server that does not answer delays no file. */
  readonly #objectReads = new Semaphore(READS_AT_ONCE)
  readonly #secrets = new Map<string, FileSecret>()

  constructor(options: FileSecretsOptions) {
    this.#options = { ...FILE_DEFAULTS, ...options }
    const { clock, folders, pollMs, onWatchError } = this.#options
    this.#folders = new AllowedFolders(folders)
    this.#watched = new WatchedFiles(clock, onWatchError, pollMs)
  }

  /** Replaces the folders in which files may be named. Files that were read before stay in use. */
  useFolders(folders: readonly string[]): void {
    this.#folders = new AllowedFolders(folders)
  }

  /** How many more names of the kind of `name` can be watched, for all callers together. */
  room(name: FileSecretName): number {
    if (this.noRoom(name) !== undefined) return 0
    const { objects } = this.#options
    const room = MAX_NAMES - this.#secrets.size
    if (!isOfSecret(name) || !objects) return room
    return Math.min(room, Math.floor(objects.room / objectsOf(name).length))
  }

  /** A reason of its kind why `room` is 0, after "it …"; `undefined` if there is none. */
  noRoom(name: FileSecretName): string | undefined {
    if (name.kind !== 'pod-token' || this.holds(formatFileName(name))) return undefined
    return this.#options.tokens?.noRoom(name)
  }

  /** Whether the name, as `formatFileName` has it, is watched. */
  holds(name: string): boolean {
    return this.#secrets.has(name)
  }

  /** Why a name can never be served here; after "it …". */
  refusal(name: FileSecretName): string | undefined {
    const { objects, tokens } = this.#options
    if (!isOfCluster(name) || this.holds(formatFileName(name))) return undefined
    if (name.kind === 'pod-token') return tokens ? tokens.refusal(name) : NO_TOKENS
    return objects ? objects.refusal(name) : NO_OBJECTS
  }

  /** Why the secret cannot be read at this moment, as far as known or visible at its paths. */
  problem(name: FileSecretName): string | undefined {
    if (this.current(name)) return undefined
    if (isOfCluster(name)) return this.#secrets.get(formatFileName(name))?.entry('').fault
    for (const path of pathsOf(name)) {
      const problem = this.#folders.problem(path)
      if (problem !== undefined) return problem
    }
    const isMissing = name.kind === 'file-roots' && name.file === SYSTEM_ROOTS && this.#systemRoots() === undefined
    return isMissing ? 'this system has no roots in any of the usual files' : undefined
  }

  current(name: FileSecretName): SecretItem | undefined {
    return this.#secrets.get(formatFileName(name))?.current
  }

  /** Calls `listener` with each new version, and with `undefined` when it is withdrawn; never inside this call. */
  subscribe(name: FileSecretName, listener: Listener): Disposable {
    const text = formatFileName(name)
    const secret = this.#secrets.get(text) ?? this.#open(text, name)
    return secret.subscribe(listener, () => {
      secret[Symbol.dispose]()
      if (this.#secrets.get(text) === secret) this.#secrets.delete(text)
    })
  }

  entries(): readonly FileSecretEntry[] {
    return Array.from(this.#secrets, ([name, secret]) => secret.entry(name))
  }

  [Symbol.dispose](): void {
    for (const secret of this.#secrets.values()) secret[Symbol.dispose]()
    this.#secrets.clear()
    this.#watched[Symbol.dispose]()
  }

  #open(text: string, name: FileSecretName): FileSecret {
    const { clock, expired, report } = this.#options
    const secret = new FileSecret({
      place: this.#placeOf(text, name),
      clock,
      reads: isOfCluster(name) ? this.#objectReads : this.#reads,
      withholdsExpired: expired === 'withhold',
      report: event => report(text, event),
    })
    this.#secrets.set(text, secret)
    return secret
  }

  #placeOf(text: string, name: FileSecretName): SecretPlace {
    const { objects, tokens } = this.#options
    if (name.kind === 'pod-token') {
      if (!tokens) throw new TypeError(`Cannot watch ${text}: it ${NO_TOKENS}`)
      return tokenPlace(name, tokens, this.#options)
    }
    if (isOfSecret(name)) {
      if (!objects) throw new TypeError(`Cannot watch ${text}: it ${NO_OBJECTS}`)
      return objectPlace(name, objects, (parts, read) => this.#load(text, parts, read))
    }
    const system = name.kind === 'file-roots' && name.file === SYSTEM_ROOTS ? this.#systemRoots() : undefined
    const files = system === undefined ? pathsOf(name) : [system]
    const parts = system === undefined ? name : ({ kind: 'file-roots', file: system } as const)
    const read = (file: string) =>
      system === undefined ? this.#folders.read(file) : readSmallFile(file, MAX_FILE_BYTES)
    return {
      label: files.join(', '),
      waitMs: FILES_WAIT_MS,
      keepMs: 0,
      watch: look => this.#watched.add(files, look),
      stamp: () => stampsOf(files),
      load: () => this.#load(text, parts, read),
    }
  }

  #systemRoots(): string | undefined {
    return systemRootsFile(this.#options.systemRoots ?? SYSTEM_ROOT_FILES)
  }

  async #load(text: string, ...[parts, read]: Parameters<LoadParts>): Promise<LoadedSecret> {
    if (parts.kind === 'file-pair') return await this.#loadPair(text, parts, read)
    const { verifier } = this.#options
    const { pem, version, skipped } = await readRootsFile(parts.file, {
      read,
      ...(verifier?.readsRoot && { readsRoot: verifier.readsRoot }),
    })
    return { item: new TrustBundleSecret({ name: text, version, trustedCa: pem }), skipped }
  }

  async #loadPair(text: string, files: KeyPairFiles, read: Parameters<LoadParts>[1]): Promise<LoadedSecret> {
    const { clock, vault, expired } = this.#options
    const pair = await readKeyPair(files, { ...(expired === 'withhold' && { now: clock.now() }), vault, read })
    const { notBefore, notAfter, serialNumber } = pair
    const item = new CertificateSecret({
      name: text,
      version: pair.chainVersion,
      certificateChain: pair.chain.join(''),
      privateKey: new SealedKey(vault, pair.privateKey),
      notBefore,
      notAfter,
      serialNumber,
    })
    return { item, life: { notBefore, notAfter }, skipped: 0 }
  }
}

/** Whether the API server has it. */
function isOfCluster(name: FileSecretName): name is KubernetesName | TokenName {
  return name.kind === 'pod-token' || isOfSecret(name)
}
