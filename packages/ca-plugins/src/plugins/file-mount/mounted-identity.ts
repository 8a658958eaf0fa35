/** The files of one identity: read on request, watched in between. */

import type { KeyVault, LookReason, WatchedFiles } from '@livery/core'
import {
  type Clock,
  type KeyPair,
  type KeyPairFiles,
  readKeyPair,
  type Semaphore,
  type SpiffeId,
  stampsOf,
  untilAborted,
} from '@livery/core/plugin'
import { reasonOf } from '../../answers/reason-of.ts'
import { ChangeNotice } from './change-notice.ts'
import type { FaultLog } from './fault-log.ts'
import type { MountedRoots } from './mounted-roots.ts'
import { untilWhole } from './until-whole.ts'

/** How long to wait for a half-written pair; core asks again after that. */
const WAIT_MS = 750
/** An identity that was not requested for this long is dropped once its certificate has ended. */
const UNUSED_MS = 3_600_000
/** A missing successor is reported in the last fifth of a certificate's life. */
const LAST_FIFTH = 0.2

interface MountedIdentityParts {
  readonly identity: SpiffeId
  readonly files: KeyPairFiles
  readonly rootsFile: string
  /** Whether its answers include roots, so that other roots count as a change. */
  readonly hasOwnRoots: boolean
  readonly roots: MountedRoots
  readonly clock: Clock
  readonly vault?: KeyVault | undefined
  readonly watched: WatchedFiles
  /** Limits the reads that no request needs. */
  readonly reads: Semaphore
  readonly faults: FaultLog
  readonly warn: (message: string) => void
  /** Called when the files hold a usable pair other than the one read last. */
  readonly onChange: () => void
  /** Called when no caller requests it any more. */
  readonly onUnused: () => void
}

/** The contents of the files at the last look. */
type PairState =
  | ({ readonly kind: 'pair' } & Pick<KeyPair, 'version' | 'notBefore' | 'notAfter'>)
  | { readonly kind: 'fault'; readonly message: string }

/** A pair with the roots beside it. */
interface MountedSet extends KeyPair {
  readonly roots: readonly string[]
}

export class MountedIdentity implements Disposable {
  readonly #parts: MountedIdentityParts
  readonly #watches = new DisposableStack()
  readonly #notice = new ChangeNotice()
  #isDisposed = false
  /** Reads overlap: one that started before another was returned has nothing new. */
  #reads = 0
  #lastGiven = 0
  #neededUntil = 0
  #seen: { readonly stamp: string; readonly state: PairState } | undefined
  #warnedOf: string | undefined

  constructor(parts: MountedIdentityParts) {
    this.#parts = parts
    const look = (reason: LookReason) => void parts.reads.run(() => this.#look(reason))
    this.#watches.use(parts.watched.add([parts.files.chain, parts.files.key], look))
    this.#watches.use(
      parts.roots.use(parts.rootsFile, {
        onReadable: () => look('event'),
        onChange: () => {
          if (parts.hasOwnRoots) look('event')
        },
      }),
    )
  }

  /** Rejects with a {@link FileFault}, or the signal's reason. */
  async read(signal: AbortSignal): Promise<MountedSet> {
    const { clock } = this.#parts
    this.#neededUntil = Math.max(this.#neededUntil, clock.now() + UNUSED_MS)
    return await untilWhole(() => this.#give(signal), clock, WAIT_MS, signal)
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true
    this.#watches.dispose()
    this.#parts.faults.gone(this.#parts.files.chain)
  }

  async #give(signal: AbortSignal): Promise<MountedSet> {
    const read = ++this.#reads
    const stamp = this.#stamp()
    const set = await setUntilAborted(this.#readSet(), signal)
    const { version, notBefore, notAfter } = set
    this.#seen = { stamp, state: { kind: 'pair', version, notBefore, notAfter } }
    this.#lastGiven = Math.max(this.#lastGiven, read)
    this.#notice.returned(this.#wholeVersion(version))
    this.#neededUntil = Math.max(this.#neededUntil, notAfter)
    return set
  }

  async #readSet(): Promise<MountedSet> {
    const pair = await this.#readPair()
    try {
      return { ...pair, roots: await this.#parts.roots.read(this.#parts.rootsFile) }
    } catch (error) {
      pair.privateKey.fill(0)
      throw error
    }
  }

  /** The version of the pair and of the roots beside it. */
  #wholeVersion(version: string): string {
    const { hasOwnRoots, roots, rootsFile } = this.#parts
    return hasOwnRoots ? `${version} ${roots.version(rootsFile)}` : version
  }

  #readPair(): Promise<KeyPair> {
    const { files, identity, clock, vault } = this.#parts
    return readKeyPair(files, { identity, now: clock.now(), vault })
  }

  async #look(reason: LookReason): Promise<void> {
    const { clock, files, faults, roots, rootsFile, onChange, onUnused } = this.#parts
    if (this.#isDisposed) return
    if (clock.now() >= this.#neededUntil) return onUnused()
    const read = ++this.#reads
    const state = await this.#currentState(reason)
    if (this.#isDisposed || read < this.#lastGiven) return
    if (state.kind === 'fault') {
      // Core repeats its request until a pair was returned, and reports why there is none.
      if (this.#notice.isKnown) faults.found(files.chain, state.message)
      return
    }
    faults.gone(files.chain)
    this.#warnOfEnd(state)
    if (roots.isKnown(rootsFile) && this.#notice.isDue(this.#wholeVersion(state.version), clock.now())) onChange()
  }

  async #currentState(reason: LookReason): Promise<PairState> {
    const stamp = this.#stamp()
    if (reason === 'poll' && this.#seen?.stamp === stamp) return this.#seen.state
    const state = await this.#readState()
    this.#seen = { stamp, state }
    return state
  }

  #stamp(): string {
    return stampsOf([this.#parts.files.chain, this.#parts.files.key])
  }

  async #readState(): Promise<PairState> {
    try {
      const { privateKey, version, notBefore, notAfter } = await this.#readPair()
      privateKey.fill(0)
      return { kind: 'pair', version, notBefore, notAfter }
    } catch (error) {
      return { kind: 'fault', message: reasonOf(error) }
    }
  }

  #warnOfEnd({ version, notBefore, notAfter }: Extract<PairState, { kind: 'pair' }>): void {
    const { clock, files, warn } = this.#parts
    const left = notAfter - clock.now()
    if (left > LAST_FIFTH * (notAfter - notBefore) || !this.#notice.isCurrent(this.#wholeVersion(version))) return
    if (this.#warnedOf === version) return
    this.#warnedOf = version
    warn(
      `The certificate in ${files.chain} ends at ${new Date(notAfter).toISOString()}, and no newer one was written. Look at what should renew it.`,
    )
  }
}

/** Wipes a set that comes too late. */
async function setUntilAborted(reading: Promise<MountedSet>, signal: AbortSignal): Promise<MountedSet> {
  try {
    return await untilAborted(reading, signal)
  } catch (error) {
    reading.then(
      ({ privateKey }) => privateKey.fill(0),
      () => {}, // there is none
    )
    throw error
  }
}
