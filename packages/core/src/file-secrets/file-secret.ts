/** One secret in files: read again when they change, and served as it was while they are not whole. */
import type { SecretEvent } from '../contract/secret-event.ts'
import { stampsOf } from '../files/file-stamp.ts'
import type { LookReason, WatchedFiles } from '../files/watched-files.ts'
import type { SecretItem } from '../secrets/secret-item.ts'
import type { Listener } from '../secrets/subscribers.ts'
import type { Clock } from '../time/clock.ts'
import { after } from '../time/deadline.ts'
import type { Semaphore } from '../time/semaphore.ts'
import { FileFault, readFault } from './file-fault.ts'

/** How long files that are not whole count as being written, milliseconds. */
const WAIT_MS = 10_000
const FIRST_PAUSE_MS = 50
/** A file that is written in place is read once it is left alone for so long: its first half can look whole. */
const QUIET_MS = 100
/** The rest of a certificate's life in which a missing successor is reported. */
const LAST_FIFTH = 0.2

/** A version of the secret, as the files had it. */
export interface LoadedSecret {
  readonly item: SecretItem
  /** Milliseconds since the epoch; absent for roots. */
  readonly life?: { readonly notBefore: number; readonly notAfter: number }
  /** Certificates that were left out. */
  readonly skipped: number
}

export interface FileSecretParts {
  readonly files: readonly string[]
  readonly clock: Clock
  readonly watched: WatchedFiles
  readonly reads: Semaphore
  /** Whether a certificate that has ended is withdrawn. */
  readonly withholdsExpired: boolean
  /** Reads the files as they are now. Rejects with a {@link FileFault}. */
  load(): Promise<LoadedSecret>
  report(event: SecretEvent): void
}

/** Read-only facts for metrics and dumps. */
export interface FileSecretEntry {
  readonly name: string
  readonly isServed: boolean
  /** When it was last replaced, milliseconds since the epoch; `undefined` before it was first read. */
  readonly changedAt: number | undefined
  /** `undefined` for roots, and while nothing is served. */
  readonly notAfter: number | undefined
  /** Why its files cannot be used at present. */
  readonly fault: string | undefined
}

export class FileSecret implements Disposable {
  readonly #parts: FileSecretParts
  readonly #listeners = new Set<Listener>()
  readonly #watch: Disposable
  #served: LoadedSecret | undefined
  #changedAt: number | undefined
  /** Of the files that `#served` came from. */
  #servedStamp = ''
  /** Of the files at the last read. */
  #readStamp = ''
  #fault: string | undefined
  /** Since when the files are not whole. */
  #unsettledSince: number | undefined
  #pauseMs = FIRST_PAUSE_MS
  #retry: Disposable | undefined
  #dateTimer: Disposable | undefined
  #isReading = false
  #isStale = false
  #isDisposed = false

  constructor(parts: FileSecretParts) {
    this.#parts = parts
    this.#watch = parts.watched.add(parts.files, reason => this.#look(reason))
    void this.#read()
  }

  get current(): SecretItem | undefined {
    return this.#served?.item
  }

  entry(name: string): FileSecretEntry {
    return {
      name,
      isServed: this.#served !== undefined,
      changedAt: this.#changedAt,
      notAfter: this.#served?.life?.notAfter,
      fault: this.#fault,
    }
  }

  /** Calls `listener` with each new version, and with `undefined` when it is withdrawn; never inside this call. */
  subscribe(listener: Listener, onLast: () => void): Disposable {
    const own: Listener = item => listener(item)
    this.#listeners.add(own)
    return {
      [Symbol.dispose]: () => {
        if (this.#listeners.delete(own) && this.#listeners.size === 0) onLast()
      },
    }
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true
    this.#watch[Symbol.dispose]()
    this.#retry?.[Symbol.dispose]()
    this.#dateTimer?.[Symbol.dispose]()
    wipe(this.#served)
    this.#served = undefined
  }

  #look(reason: LookReason): void {
    // A fault can have its cause in a folder, which the stamps do not show.
    const isUnchanged = reason === 'poll' && !this.#fault && this.#readStamp === stampsOf(this.#parts.files)
    if (!isUnchanged) void this.#read()
  }

  /** One read at a time; what changes meanwhile is read after it. */
  async #read(): Promise<void> {
    this.#isStale = true
    if (this.#isReading) return
    this.#isReading = true
    while (this.#isStale && !this.#isDisposed) {
      this.#isStale = false
      this.#retry?.[Symbol.dispose]()
      this.#retry = undefined
      await this.#parts.reads.run(() => this.#readOnce())
    }
    this.#isReading = false
  }

  async #readOnce(): Promise<void> {
    const { files, load } = this.#parts
    if (this.#isDisposed) return
    const stamp = stampsOf(files)
    const isQuiet = stamp === this.#readStamp
    this.#readStamp = stamp
    let loaded: LoadedSecret
    try {
      loaded = await load()
    } catch (error) {
      if (!this.#isDisposed)
        this.#onFault(error instanceof FileFault ? error : readFault(files.join(', '), error, false))
      return
    }
    if (this.#isDisposed) wipe(loaded)
    else if (this.#isBeingWritten(stamp, isQuiet) && this.#waitLeft() > 0) {
      wipe(loaded)
      this.#retryAfter(QUIET_MS)
    } else this.#accept(loaded, stamp)
  }

  #isBeingWritten(stamp: string, isQuiet: boolean): boolean {
    if (stamp !== stampsOf(this.#parts.files)) return true
    return !isQuiet && stamp !== this.#servedStamp && isInPlace(stamp, this.#servedStamp)
  }

  #accept(loaded: LoadedSecret, stamp: string): void {
    this.#fault = undefined
    this.#unsettledSince = undefined
    this.#pauseMs = FIRST_PAUSE_MS
    const { clock, report } = this.#parts
    if (loaded.item.version === this.#served?.item.version) {
      wipe(loaded)
      this.#servedStamp = stamp
      return
    }
    const notBefore = loaded.life?.notBefore ?? 0
    if (notBefore > clock.now()) {
      wipe(loaded)
      report({ kind: 'held', until: notBefore, reason: 'not-yet-valid' })
      this.#retry = clock.at(notBefore, () => void this.#read())
      return
    }
    this.#servedStamp = stamp
    this.#serve(loaded)
  }

  #serve(loaded: LoadedSecret): void {
    const { clock, report } = this.#parts
    const { item, life, skipped } = loaded
    const replaced = this.#served
    this.#served = loaded
    this.#changedAt = clock.now()
    report({
      kind: 'read-from-files',
      version: item.version,
      ...(item.kind === 'certificate' && { serialNumber: item.serialNumber }),
      ...(life && { notAfter: life.notAfter }),
      ...(skipped > 0 && { skipped }),
    })
    this.#dateTimer?.[Symbol.dispose]()
    this.#dateTimer = life && this.#warnBeforeEnd(life)
    this.#notify()
    wipe(replaced)
  }

  #warnBeforeEnd({ notBefore, notAfter }: NonNullable<LoadedSecret['life']>): Disposable {
    const { clock, report, withholdsExpired } = this.#parts
    return clock.at(notAfter - LAST_FIFTH * (notAfter - notBefore), () => {
      report({ kind: 'ending', notAfter })
      if (withholdsExpired) this.#dateTimer = clock.at(notAfter, () => this.#withdraw())
    })
  }

  #withdraw(): void {
    const expired = this.#served
    this.#served = undefined
    this.#servedStamp = ''
    this.#parts.report({ kind: 'withdrawn', reason: 'expired' })
    this.#notify()
    wipe(expired)
  }

  #notify(): void {
    const { current } = this
    for (const listener of this.#listeners) listener(current)
  }

  #onFault(fault: FileFault): void {
    const left = this.#waitLeft()
    if (fault.mayPass && left > 0) {
      this.#retryAfter(Math.min(this.#pauseMs, left))
      this.#pauseMs *= 2
      return
    }
    if (this.#fault === fault.message) return
    this.#fault = fault.message
    this.#parts.report({ kind: 'files-unusable', reason: fault.message, isServed: this.#served !== undefined })
  }

  /** How much longer files that are not whole are waited for. */
  #waitLeft(): number {
    const now = this.#parts.clock.now()
    this.#unsettledSince ??= now
    return Math.min(this.#unsettledSince + WAIT_MS - now, WAIT_MS)
  }

  #retryAfter(ms: number): void {
    this.#retry = after(this.#parts.clock, ms, () => void this.#read())
  }
}

function wipe(secret: LoadedSecret | undefined): void {
  if (secret?.item.kind === 'certificate') secret.item.wipe()
}

/** Whether one of the files is the same one as before with another content, as their stamps have it. */
function isInPlace(stamp: string, before: string): boolean {
  const earlier = before.split(' ')
  return stamp
    .split(' ')
    .some((each, index) => each !== earlier[index] && inodeIn(each) === inodeIn(earlier[index] ?? ''))
}

/** A stamp begins with device and inode. */
function inodeIn(stamp: string): string {
  return stamp.split(',', 2).join()
}
