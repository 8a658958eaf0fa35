/** Why a secret is, or is not, there: a bounded ring of events per resource name, read by `livery explain`. */
import type { CAErrorCode } from './ca-client.ts'

/** What can happen to a secret. Texts are for people and carry no key, token or raw peer text. */
export type LedgerEvent =
  | { readonly kind: 'asked'; readonly by: string }
  | { readonly kind: 'refused'; readonly by: string; readonly reason: string }
  | { readonly kind: 'csr-sent'; readonly reason: 'first' | 'renewal' | 'on-demand' | 'new-root' }
  | { readonly kind: 'ca-error'; readonly code: CAErrorCode; readonly message: string }
  | { readonly kind: 'retry-planned'; readonly at: number }
  | { readonly kind: 'held'; readonly until: number; readonly reason: 'not-yet-valid' | 'root-settling' }
  | { readonly kind: 'issued'; readonly serialNumber: string; readonly notAfter: number; readonly renewAt: number }
  | { readonly kind: 'roots-changed'; readonly version: string; readonly roots: number }
  | { readonly kind: 'withdrawn'; readonly reason: 'expired' | 'forgotten' }
  | { readonly kind: 'pushed'; readonly to: string; readonly version: string }
  | { readonly kind: 'acked'; readonly by: string; readonly version: string }
  | { readonly kind: 'nacked'; readonly by: string; readonly version: string; readonly detail: string }

export interface LedgerEntry {
  /** Milliseconds since the epoch. */
  readonly time: number
  readonly event: LedgerEvent
}

const EVENTS_PER_NAME = 64
const MAX_NAMES = 20_000

/** Keeps the last 64 events of each of the 20,000 names heard of last. */
export class Ledger {
  readonly #rings = new Map<string, LedgerEntry[]>()

  record(name: string, entry: LedgerEntry): void {
    let ring = this.#rings.get(name)
    if (ring) this.#rings.delete(name)
    else ring = []
    if (ring.push(entry) > EVENTS_PER_NAME) ring.shift()
    this.#rings.set(name, ring)
    if (this.#rings.size > MAX_NAMES) {
      for (const oldest of this.#rings.keys()) {
        this.#rings.delete(oldest)
        break
      }
    }
  }

  /** Oldest first; empty for a name never heard of. */
  entries(name: string): readonly LedgerEntry[] {
    return this.#rings.get(name) ?? []
  }
}
