/** Certificates in well-known folders take precedence over a CA's: an identity whose pair is mounted there needs no other. */
import { X509Certificate } from 'node:crypto'
import { WatchedFiles } from '@livery/core'
import {
  type CAChange,
  type CAClient,
  type CAContext,
  type CertificateRequest,
  type IssuedCertificate,
  isSpiffeId,
  MAX_FILE_BYTES,
  readSmallFile,
  type SpiffeId,
  stampsOf,
  systemErrorCode,
} from '@livery/core/plugin'
import { reasonOf } from '../../answers/reason-of.ts'
import { FileMountClient, POLL_MS } from './client.ts'
import { type Mount, mountOf } from './config.ts'

const LAYOUTS = ['istio', 'gke'] as const

type Context = Pick<CAContext, 'clock' | 'log' | 'metrics' | 'trustDomain' | 'vault'>

/** A client that serves from the files first, then from the CA. Roots beside a pair count for its identity alone. */
export class WellKnownFiles implements CAClient {
  readonly trustBundle?: NonNullable<CAClient['trustBundle']>
  readonly federatedBundles?: NonNullable<CAClient['federatedBundles']>
  readonly #ca: CAClient
  readonly #clock: CAContext['clock']
  readonly #sets: readonly WellKnownSet[]
  readonly #watched: WatchedFiles
  readonly #listeners = new Set<(change: CAChange) => void>()

  /**
   * `ca` is asked for every identity that has no pair in the folders; its creator closes it. `folders` are absolute; the first
   * that has a pair for an identity counts.
   */
  constructor(ca: CAClient, folders: readonly string[], context: Context) {
    this.#ca = ca
    this.#clock = context.clock
    // The clients of the folders report the same about the files that they watch.
    this.#watched = new WatchedFiles(context.clock, () => {}, POLL_MS)
    this.#sets = folders.flatMap(folder =>
      LAYOUTS.map(layout => {
        const mount = mountOf({ layout, folder, rootsFor: 'identity' })
        return new WellKnownSet(mount, context, change => this.#notify(change))
      }),
    )
    for (const set of this.#sets) this.#watched.add([set.chain], () => void set.look())
    if (ca.trustBundle) this.trustBundle = options => ca.trustBundle?.(options) ?? Promise.resolve([])
    if (ca.federatedBundles)
      this.federatedBundles = options => ca.federatedBundles?.(options) ?? Promise.resolve(new Map())
  }

  get isListPartial(): boolean {
    return this.#ca.isListPartial ?? false
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const set = await this.#setOf(request.identity)
    return await (set ?? this.#ca).issue(request)
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    const own = (change: CAChange) => listener(change)
    this.#listeners.add(own)
    const ca = this.#ca.subscribe?.(own)
    return {
      [Symbol.dispose]: () => {
        this.#listeners.delete(own)
        ca?.[Symbol.dispose]()
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear()
    this.#watched[Symbol.dispose]()
    for (const set of this.#sets) await set[Symbol.asyncDispose]()
  }

  async #setOf(identity: SpiffeId): Promise<WellKnownSet | undefined> {
    const now = this.#clock.now()
    for (const set of this.#sets) if (await set.isFor(identity, now)) return set
    return undefined
  }

  #notify(change: CAChange): void {
    for (const listener of this.#listeners) listener(change)
  }
}

/** The files of one layout in one folder. */
class WellKnownSet implements AsyncDisposable {
  readonly chain: string
  readonly #mount: Mount
  readonly #context: Context
  readonly #notify: (change: CAChange) => void
  /** Set once an identity has its pair here. */
  #client: FileMountClient | undefined
  #seen: { readonly stamp: string; readonly leaf: X509Certificate | undefined } | undefined
  /** The fingerprint of the leaf that was reported last. */
  #announced: string | undefined

  constructor(mount: Mount, context: Context, notify: (change: CAChange) => void) {
    this.#mount = mount
    this.#context = context
    this.#notify = notify
    this.chain = mount.chain.text
  }

  /** Whether the files hold a certificate of the identity that has not ended: then the files take precedence. */
  async isFor(identity: SpiffeId, now: number): Promise<boolean> {
    const leaf = await this.#leaf()
    return leaf !== undefined && identityOf(leaf) === identity && leaf.validToDate.getTime() > now
  }

  issue(request: CertificateRequest): Promise<IssuedCertificate> {
    if (!this.#client) {
      this.#client = new FileMountClient({ ...this.#context }, this.#mount)
      this.#client.subscribe(this.#notify)
      this.#context.log.info(`${request.identity} has its certificate from ${this.chain}: no CA is asked for it`)
    }
    return this.#client.issue(request)
  }

  /** Has an identity requested again when its files appear here. */
  async look(): Promise<void> {
    const leaf = await this.#leaf()
    if (leaf?.fingerprint256 === this.#announced) return
    this.#announced = leaf?.fingerprint256
    const identity = leaf && identityOf(leaf)
    // The client watches the files from its first request on.
    if (identity && !this.#client) this.#notify({ kind: 'certificates', identities: [identity] })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client?.[Symbol.asyncDispose]()
  }

  /** Parses each content once: thousands of identities ask. */
  async #leaf(): Promise<X509Certificate | undefined> {
    const stamp = stampsOf([this.chain])
    if (this.#seen?.stamp === stamp) return this.#seen.leaf
    const leaf = await this.#readLeaf()
    this.#seen = { stamp, leaf }
    return leaf
  }

  async #readLeaf(): Promise<X509Certificate | undefined> {
    try {
      const bytes = await readSmallFile(this.chain, MAX_FILE_BYTES)
      return new X509Certificate(bytes)
    } catch (error) {
      if (systemErrorCode(error) !== 'ENOENT' && systemErrorCode(error) !== 'ENOTDIR')
        this.#context.log.warn(`${this.chain} is not used, the CA is asked: ${reasonOf(error)}`)
      return undefined
    }
  }
}

function identityOf(leaf: X509Certificate): SpiffeId | undefined {
  const [uri, ...others] = (leaf.subjectAltName ?? '').split(', ').filter(name => name.startsWith('URI:'))
  const identity = uri?.slice('URI:'.length)
  return identity !== undefined && others.length === 0 && isSpiffeId(identity) ? identity : undefined
}
