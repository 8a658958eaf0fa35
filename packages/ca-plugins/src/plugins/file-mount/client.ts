/** The client of the `file-mount` plugin: reads the files, and reports their changes. */

import { WatchedFiles } from '@livery/core'
import {
  type CAChange,
  type CAClient,
  type CAContext,
  type CertificateRequest,
  type IssuedCertificate,
  Semaphore,
  type SpiffeId,
  trustDomainOf,
} from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { reasonOf } from '../../answers/reason-of.ts'
import { Closable } from '../../transport/closable.ts'
import type { Mount } from './config.ts'
import { FaultLog } from './fault-log.ts'
import { MountedIdentity } from './mounted-identity.ts'
import { MountedRoots } from './mounted-roots.ts'

/** The interval between looks at each file, whatever the watches report. */
export const POLL_MS = 30_000
/** The most files read at once without a request. */
const READS_AT_ONCE = 16

/** Watches the files of every requested identity. Holds roots and digests, no certificate and no key. */
export class FileMountClient implements CAClient {
  /** Absent where no file speaks for the trust domain. */
  readonly trustBundle?: NonNullable<CAClient['trustBundle']>
  readonly #context: CAContext
  readonly #mount: Mount
  readonly #watched: WatchedFiles
  readonly #reads = new Semaphore(READS_AT_ONCE)
  readonly #faults: FaultLog
  readonly #roots: MountedRoots
  readonly #identities = new Map<SpiffeId, MountedIdentity>()
  readonly #listeners = new Set<(change: CAChange) => void>()
  readonly #closing = new Closable('the mounted files')

  constructor(context: CAContext, mount: Mount) {
    const { clock, log } = context
    this.#context = context
    this.#mount = mount
    this.#faults = new FaultLog(log)
    this.#watched = new WatchedFiles(clock, error => log.warn(notWatched(error)), POLL_MS)
    this.#roots = new MountedRoots({
      clock,
      watched: this.#watched,
      reads: this.#reads,
      areChains: mount.roots.text === mount.chain.text,
      faults: this.#faults,
      warn: message => log.warn(message),
      ...(mount.rootsFor === 'trust-domain' && { onChange: () => this.#notify({ kind: 'roots' }) }),
    })
    if (mount.rootsFor === 'identity') {
      log.info(
        `The roots in ${mount.roots.text} count for the identity of each file only: a socket of several identities has no bundle. For one, set roots to a single file, or rootsFor to trust-domain.`,
      )
      return
    }
    this.trustBundle = ({ signal }) => this.#trustBundle(signal)
    // A file for all identities is known before any of them is.
    const { fixed } = mount.roots
    if (fixed !== undefined) this.#roots.use(fixed, {})
  }

  async issue({ identity, signal }: CertificateRequest): Promise<IssuedCertificate> {
    const either = this.#closing.until(signal)
    const mounted = this.#identities.get(identity) ?? this.#start(identity)
    const { chain, roots, privateKey } = await mounted.read(either)
    return { chain, roots, rootsFor: this.#mount.rootsFor, privateKey }
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#closing.signal.throwIfAborted()
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    this.#listeners.clear()
    for (const identity of [...this.#identities.keys()]) this.#stop(identity)
    this.#roots[Symbol.dispose]()
    this.#watched[Symbol.dispose]()
  }

  async #trustBundle(signal: AbortSignal): Promise<readonly string[]> {
    return await this.#roots.bundle(this.#closing.until(signal))
  }

  #start(identity: SpiffeId): MountedIdentity {
    const { clock, log, trustDomain } = this.#context
    // The roots of its files would become roots of this trust domain.
    if (trustDomainOf(identity) !== trustDomain)
      throw caError('denied', {
        action: `read files for ${identity.slice(0, 300)}`,
        reason: `it is not in the trust domain ${trustDomain}`,
        remedy: 'Correct it, or trustDomain',
      })
    const { chain, key, roots, rootsFor } = this.#mount
    const mounted = new MountedIdentity({
      identity,
      files: { chain: chain.fill(identity), key: key.fill(identity) },
      rootsFile: roots.fill(identity),
      hasOwnRoots: rootsFor === 'identity',
      roots: this.#roots,
      clock,
      vault: this.#context.vault,
      watched: this.#watched,
      reads: this.#reads,
      faults: this.#faults,
      warn: message => log.warn(message),
      onChange: () => this.#notify({ kind: 'certificates', identities: [identity] }),
      onUnused: () => this.#stop(identity),
    })
    this.#identities.set(identity, mounted)
    return mounted
  }

  #stop(identity: SpiffeId): void {
    this.#identities.get(identity)?.[Symbol.dispose]()
    this.#identities.delete(identity)
  }

  #notify(change: CAChange): void {
    for (const listener of this.#listeners) listener(change)
  }
}

function notWatched(error: unknown): string {
  const reason = reasonOf(error)
  return `Cannot watch files for changes: ${reason}. They are looked at every ${POLL_MS / 1000} s instead. Raise fs.inotify.max_user_watches or max_user_instances.`
}
