/** Why a secret is, or is not, there: a bounded ring of events per resource name, read by `livery explain`. */
import type { LedgerEntry, LedgerEvent } from '../contract/secret-event.ts'

const EVENTS_PER_NAME = 32
/** How far back an entry may lie to be counted up: pushes and ACKs of one version alternate. */
const REPEATS_WITHIN = 4
const MAX_STRANGERS = 1_000

type Ring = { time: number; event: LedgerEvent; count?: number }[]

/** Keeps the last 32 events of each name that is held, and of the 1,000 other names heard of last. */
export class Ledger {
  readonly #held = new Map<string, Ring>()
  readonly #strangers = new Map<string, Ring>()

  record(name: string, { time, event }: LedgerEntry, isHeld: boolean): void {
    const ring = isHeld ? this.#ringOf(name) : this.#strangerRing(name)
    for (let index = ring.length - 1; index >= Math.max(0, ring.length - REPEATS_WITHIN); index--) {
      const entry = ring[index]
      // What happened before a new certificate is another story, though it reads the same.
      if (!entry || entry.event.kind === 'issued') break
      if (!repeats(entry.event, event)) continue
      entry.time = time
      entry.event = event
      entry.count = (entry.count ?? 1) + 1
      return
    }
    if (ring.push({ time, event }) > EVENTS_PER_NAME) ring.shift()
  }

  /** Oldest first; empty for a name never heard of. */
  entries(name: string): readonly LedgerEntry[] {
    return this.#held.get(name) ?? this.#strangers.get(name) ?? []
  }

  /** The name is no longer held: its events are kept as those of a stranger. */
  release(name: string): void {
    const ring = this.#held.get(name)
    this.#held.delete(name)
    if (ring) this.#keepStranger(name, ring)
  }

  #ringOf(name: string): Ring {
    const present = this.#held.get(name)
    if (present) return present
    const ring = this.#strangers.get(name) ?? []
    this.#strangers.delete(name)
    this.#held.set(name, ring)
    return ring
  }

  #strangerRing(name: string): Ring {
    const ring = this.#strangers.get(name) ?? []
    this.#strangers.delete(name)
    this.#keepStranger(name, ring)
    return ring
  }

  #keepStranger(name: string, ring: Ring): void {
    this.#strangers.set(name, ring)
    if (this.#strangers.size <= MAX_STRANGERS) return
    for (const oldest of this.#strangers.keys()) {
      this.#strangers.delete(oldest)
      break
    }
  }
}

/** Whether an event only says again what an earlier one said, perhaps of another stream. */
function repeats(earlier: LedgerEvent, later: LedgerEvent): boolean {
  switch (later.kind) {
    case 'asked':
      return earlier.kind === 'asked'
    case 'not-stored':
    case 'not-restored':
      return earlier.kind === later.kind && earlier.reason === later.reason
    case 'refused':
      return earlier.kind === 'refused' && earlier.reason === later.reason
    case 'ca-error':
      return earlier.kind === 'ca-error' && earlier.code === later.code && earlier.message === later.message
    case 'pushed':
      return earlier.kind === 'pushed' && earlier.version === later.version
    case 'acked':
      return earlier.kind === 'acked' && earlier.version === later.version
    case 'nacked':
      return earlier.kind === 'nacked' && earlier.version === later.version && earlier.detail === later.detail
    case 'csr-sent':
    case 'retry-planned':
    case 'no-room':
      return earlier.kind === later.kind
    default:
      return false
  }
}
