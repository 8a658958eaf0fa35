/** The phases of new roots: each is announced to all clients first, and only then leaves under it are served. */

import type { RootPhase } from '../contract/trust-anchor.ts'
import type { TrustBundleSecret } from '../identity/secret-item.ts'
import type { Clock } from '../time/clock.ts'
import type { BundleReceipt } from './bundle-receipts.ts'

/** A client that keeps a root from its next phase, and its reason where it has rejected the root. */
export interface WaitedFor {
  readonly client: string
  readonly reason?: string
}

export interface RootRotationOptions {
  readonly clock: Clock
  /** How long clients that say nothing are waited for, milliseconds. */
  readonly ackWaitMs: number
  /** The live streams of the trust domain. */
  readonly receipts: () => Iterable<BundleReceipt>
  /** A phase began or stopped; `reason` is for people. */
  readonly report: (fingerprint: string, phase: RootPhase, reason: string) => void
  /** Leaves under this root may be served from now on. */
  readonly onTrusted: (fingerprint: string) => void
}

interface Announcement {
  readonly settlesAt: number
  /** Until then silent clients are waited for. */
  readonly waitUntil: number
  /** They use an older bundle, and have not answered the one with this root. */
  readonly silent: Set<BundleReceipt>
  readonly rejecting: Set<BundleReceipt>
  /** An operator has decided against waiting for those that reject it. */
  ignoresRejections: boolean
  timer: Disposable | undefined
}

/** At most so many clients are named at a time. */
const MAX_NAMED = 20

/**
 * One trust domain. An announcement ends when `settlesAt` has passed (other nodes can hear of a root later) and every
 * client that uses an older bundle has accepted one with the root. A client that does not answer is waited for during
 * `ackWaitMs`; one that rejects the root holds it without an end. Not waited for are streams whose first bundle had the
 * root, and streams that have rejected every bundle: they use none.
 */
export class RootRotation implements Disposable {
  readonly #options: RootRotationOptions
  readonly #announced = new Map<string, Announcement>()
  readonly #held = new Set<string>()

  constructor(options: RootRotationOptions) {
    this.#options = options
  }

  /** Call after the bundle with the new root was made, before it is published. */
  announce(
    fingerprint: string,
    { learnedAt, settlesAt }: { readonly learnedAt: number; readonly settlesAt: number },
  ): void {
    const { ackWaitMs, receipts } = this.#options
    const silent = new Set<BundleReceipt>()
    for (const receipt of receipts()) if (receipt.accepted || !receipt.rejected) silent.add(receipt)
    const waitUntil = Math.max(settlesAt, learnedAt + ackWaitMs)
    this.#forgetAnnouncement(fingerprint)
    this.#announced.set(fingerprint, {
      settlesAt,
      waitUntil,
      silent,
      rejecting: new Set(),
      ignoresRejections: false,
      timer: undefined,
    })
    this.#options.report(fingerprint, 'announcing', `${count(silent.size, 'client')} to learn it first`)
    this.#wait(fingerprint)
  }

  /** Whether leaves under it may be served. */
  isTrusted(fingerprint: string): boolean {
    return !this.#announced.has(fingerprint) && !this.#held.has(fingerprint)
  }

  isAnnouncing(fingerprint: string): boolean {
    return this.#announced.has(fingerprint)
  }

  isHeld(fingerprint: string): boolean {
    return this.#held.has(fingerprint)
  }

  /** Stops it in its phase, as an operator wishes: no leaf under it is served, and it is not removed. */
  hold(fingerprint: string): void {
    if (this.#held.has(fingerprint)) return
    this.#held.add(fingerprint)
    this.#options.report(fingerprint, 'held', 'an operator holds it')
  }

  /** Ends a hold, and waits no longer for clients that have rejected the root. */
  resume(fingerprint: string): void {
    const wasHeld = this.#held.delete(fingerprint)
    const announcement = this.#announced.get(fingerprint)
    if (announcement) {
      announcement.ignoresRejections = true
      this.#evaluate(fingerprint, announcement)
    } else if (wasHeld) this.#trust(fingerprint, 'an operator has resumed it')
  }

  /** An operator gives the root up: nothing waits for it any longer. */
  drop(fingerprint: string): void {
    this.forget(fingerprint)
    this.#options.report(fingerprint, 'retiring', 'an operator has dropped it')
  }

  /** The root is no longer in the bundle. */
  forget(fingerprint: string): void {
    this.#forgetAnnouncement(fingerprint)
    this.#held.delete(fingerprint)
  }

  /** Forgets each root that is not in the bundle: one that gave its place to others has left without a word. */
  forgetAllBut(isInBundle: (fingerprint: string) => boolean): void {
    for (const fingerprint of [...this.#announced.keys(), ...this.#held])
      if (!isInBundle(fingerprint)) this.forget(fingerprint)
  }

  /** Clients that the announcement of a root waits for, those that reject it first; at most 20. */
  waitsFor(fingerprint: string): readonly WaitedFor[] {
    const announcement = this.#announced.get(fingerprint)
    if (!announcement) return []
    const rejecting = take(announcement.rejecting, MAX_NAMED).map(({ client, rejected }) => ({
      client: client(),
      reason: rejected?.reason ?? '',
    }))
    const silent = take(announcement.silent, MAX_NAMED - rejecting.length).map(({ client }) => ({ client: client() }))
    return [...rejecting, ...silent]
  }

  /** How many clients an announcement waits for. */
  waiting(fingerprint: string): number {
    const announcement = this.#announced.get(fingerprint)
    return announcement ? announcement.rejecting.size + announcement.silent.size : 0
  }

  onFirstSent(receipt: BundleReceipt, bundle: TrustBundleSecret): void {
    for (const [fingerprint, { silent }] of this.#announced) if (!bundle.has(fingerprint)) silent.add(receipt)
  }

  onAnswered(receipt: BundleReceipt): void {
    const { accepted, rejected } = receipt
    for (const [fingerprint, announcement] of this.#announced) {
      const { silent, rejecting } = announcement
      if (accepted?.has(fingerprint)) {
        silent.delete(receipt)
        rejecting.delete(receipt)
      } else if (!accepted && rejected) {
        // It has never taken a bundle, so this one changes nothing for it.
        silent.delete(receipt)
      } else if (rejected?.bundle.has(fingerprint)) this.#reject(fingerprint, announcement, receipt)
      else continue
      this.#evaluate(fingerprint, announcement)
    }
  }

  onClosed(receipt: BundleReceipt): void {
    for (const [fingerprint, announcement] of this.#announced) {
      const wasSilent = announcement.silent.delete(receipt)
      if (announcement.rejecting.delete(receipt) || wasSilent) this.#evaluate(fingerprint, announcement)
    }
  }

  [Symbol.dispose](): void {
    for (const fingerprint of [...this.#announced.keys()]) this.#forgetAnnouncement(fingerprint)
  }

  #reject(fingerprint: string, { silent, rejecting }: Announcement, receipt: BundleReceipt): void {
    silent.delete(receipt)
    if (rejecting.has(receipt)) return
    rejecting.add(receipt)
    const reason = `${receipt.client()} rejects it: ${receipt.rejected?.reason ?? ''}`
    this.#options.report(fingerprint, 'announcing', reason)
  }

  #evaluate(fingerprint: string, announcement: Announcement): void {
    const now = this.#options.clock.now()
    const { settlesAt, waitUntil, silent, rejecting, ignoresRejections } = announcement
    if (this.#held.has(fingerprint) || now < settlesAt) return
    if (rejecting.size > 0 && !ignoresRejections) return
    if (silent.size > 0 && now < waitUntil) return
    this.#forgetAnnouncement(fingerprint)
    const reason = silent.size === 0 ? 'every client has it' : `${count(silent.size, 'client')} said nothing`
    this.#trust(fingerprint, reason)
  }

  #trust(fingerprint: string, reason: string): void {
    this.#options.report(fingerprint, 'trusted', reason)
    this.#options.onTrusted(fingerprint)
  }

  /** Looks again when the settle time has passed, and when silent clients are no longer waited for. */
  #wait(fingerprint: string): void {
    const announcement = this.#announced.get(fingerprint)
    if (!announcement) return
    const { clock } = this.#options
    const { settlesAt, waitUntil } = announcement
    announcement.timer = clock.at(settlesAt, () => {
      announcement.timer = clock.at(waitUntil, () => this.#evaluate(fingerprint, announcement))
      this.#evaluate(fingerprint, announcement)
    })
  }

  #forgetAnnouncement(fingerprint: string): void {
    this.#announced.get(fingerprint)?.timer?.[Symbol.dispose]()
    this.#announced.delete(fingerprint)
  }
}

function take<T>(items: Iterable<T>, most: number): readonly T[] {
  return [...items].slice(0, most)
}

function count(number: number, noun: string): string {
  return `${number} ${number === 1 ? noun : `${noun}s`}`
}
