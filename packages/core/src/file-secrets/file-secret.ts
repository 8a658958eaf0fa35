/** One secret that others write: read again when it changes, and served as it was while it is not whole. */
import { CAError } from '../contract/ca-client.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { LookReason } from '../files/watched-files.ts'
import type { SecretItem } from '../secrets/secret-item.ts'
import type { Listener } from '../secrets/watch.ts'
import type { Clock } from '../time/clock.ts'
import { after } from '../time/deadline.ts'
import type { Semaphore } from '../time/semaphore.ts'
import { FileFault, readFault } from './file-fault.ts'

const FIRST_PAUSE_MS = 50
/** How long a file that is written in place must rest before it is read: its first half can look whole. */
const QUIET_MS = 100
/** The last share of a certificate's life, in which a missing successor is reported. */
const LAST_FIFTH = 0.2

/** A version of the secret, as its place had it. */
export interface LoadedSecret {
  readonly item: SecretItem
  /** Milliseconds since the epoch; absent for roots. */
  readonly life?: { readonly notBefore: number; readonly notAfter: number }
  /** Certificates that were left out. */
  readonly skipped: number
}

/** Where a secret is that others write. */
export interface SecretPlace {
  /** As messages name it. */
  readonly label: string
  /** How long a secret that is not whole counts as being written, milliseconds. */
  readonly waitMs: number
  /** How long a secret stays without a subscriber, milliseconds. */
  readonly keepMs: number
  /** Calls `look` when the secret may have changed; never inside this call. */
  watch(look: (reason: LookReason) => void): Disposable
  /** Identifies its version without reading it: device, inode and more of each file. */
  stamp(): string
  /** Reads it as it is now. Rejects with a {@link FileFault} if the content is to blame. */
  load(): Promise<LoadedSecret>
}

export interface FileSecretParts {
  readonly place: SecretPlace
  readonly clock: Clock
  readonly reads: Semaphore
  /** Whether a certificate that has ended is withdrawn. */
  readonly withholdsExpired: boolean
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
  /** The stamp of the files behind `#served`. */
  #servedStamp = ''
  /** The stamp of the files at the last read. */
  #readStamp = ''
  #fault: string | undefined
  /** When the files began not to be whole. */
  #unsettledSince: number | undefined
  #pauseMs = FIRST_PAUSE_MS
  #retry: Disposable | undefined
  #dateTimer: Disposable | undefined
  /** The timer that ends a secret without a subscriber. */
  #end: Disposable | undefined
  #isReading = false
  #isStale = false
  #isDisposed = false

  constructor(parts: FileSecretParts) {
    this.#parts = parts
    this.#watch = parts.place.watch(reason => this.#look(reason))
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

  /**
   * Calls `listener` with each new version, and with `undefined` when it is withdrawn; never inside this call. Calls `onLast`
   * once there was no subscriber for the place's `keepMs`.
   */
  subscribe(listener: Listener, onLast: () => void): Disposable {
    const own: Listener = item => listener(item)
    this.#listeners.add(own)
    this.#end?.[Symbol.dispose]()
    return {
      [Symbol.dispose]: () => {
        if (!this.#listeners.delete(own) || this.#listeners.size > 0 || this.#isDisposed) return
        const { clock, place } = this.#parts
        if (place.keepMs === 0) onLast()
        else this.#end = after(clock, place.keepMs, onLast)
      },
    }
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true
    this.#watch[Symbol.dispose]()
    this.#retry?.[Symbol.dispose]()
    this.#dateTimer?.[Symbol.dispose]()
    this.#end?.[Symbol.dispose]()
    wipe(this.#served)
    this.#served = undefined
  }

  #look(reason: LookReason): void {
    // The cause of a fault can be a folder, which the stamps do not cover.
    const isUnchanged = reason === 'poll' && !this.#fault && this.#readStamp === this.#parts.place.stamp()
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
    const { place } = this.#parts
    if (this.#isDisposed) return
    const stamp = place.stamp()
    const isQuiet = stamp === this.#readStamp
    this.#readStamp = stamp
    let loaded: LoadedSecret
    try {
      loaded = await place.load()
    } catch (error) {
      if (!this.#isDisposed) this.#onFault(error instanceof CAError ? error : readFault(place.label, error, false))
      return
    }
    if (this.#isDisposed) wipe(loaded)
    else if (this.#isBeingWritten(stamp, isQuiet) && this.#waitLeft() > 0) {
      wipe(loaded)
      this.#retryAfter(QUIET_MS)
    } else this.#accept(loaded, stamp)
  }

  #isBeingWritten(stamp: string, isQuiet: boolean): boolean {
    if (stamp !== this.#parts.place.stamp()) return true
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
      report({ kind: 'served-later', until: notBefore, reason: 'not-yet-valid' })
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
    this.#dateTimer = life && this.#warnBeforeEnd(life, item.kind === 'token')
    this.#notify()
    wipe(replaced)
  }

  /** A certificate ends at its date. A token ends after its lifetime, which a set clock does not change. */
  #warnBeforeEnd({ notBefore, notAfter }: NonNullable<LoadedSecret['life']>, isToken: boolean): Disposable {
    const { clock, report, withholdsExpired } = this.#parts
    const last = LAST_FIFTH * (notAfter - notBefore)
    const wait = (time: number, afterMs: number, task: () => void) =>
      isToken ? after(clock, afterMs, task) : clock.at(time, task)
    return wait(notAfter - last, notAfter - notBefore - last, () => {
      report({ kind: 'ending', notAfter })
      if (withholdsExpired || isToken) this.#dateTimer = wait(notAfter, last, () => this.#withdraw('expired'))
    })
  }

  #withdraw(reason: 'expired' | 'deleted'): void {
    const withdrawn = this.#served
    this.#served = undefined
    this.#servedStamp = ''
    this.#dateTimer?.[Symbol.dispose]()
    this.#parts.report({ kind: 'withdrawn', reason })
    this.#notify()
    wipe(withdrawn)
  }

  #notify(): void {
    const { current } = this
    for (const listener of this.#listeners) listener(current)
  }

  #onFault(fault: CAError): void {
    const left = this.#waitLeft()
    const { mayPass, isGone } = fault instanceof FileFault ? fault : { mayPass: false, isGone: false }
    if (isGone && this.#served) this.#withdraw('deleted')
    if (mayPass && left > 0) {
      this.#retryAfter(Math.min(this.#pauseMs, left))
      this.#pauseMs *= 2
      return
    }
    if (this.#fault === fault.message) return
    this.#fault = fault.message
    this.#parts.report({ kind: 'files-unusable', reason: fault.message, isServed: this.#served !== undefined })
  }

  /** The remaining wait for files that are not whole. */
  #waitLeft(): number {
    const now = this.#parts.clock.now()
    this.#unsettledSince ??= now
    const { waitMs } = this.#parts.place
    return Math.min(this.#unsettledSince + waitMs - now, waitMs)
  }

  #retryAfter(ms: number): void {
    this.#retry = after(this.#parts.clock, ms, () => void this.#read())
  }
}

function wipe(secret: LoadedSecret | undefined): void {
  if (secret?.item.kind === 'certificate' || secret?.item.kind === 'token') secret.item.wipe()
}

/** Whether, by the stamps, one of the files was written in place. */
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
