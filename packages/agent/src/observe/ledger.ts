/** Why a secret is present or missing: a bounded ring of events per resource name, read by `livery explain`. */
import type { StreamReport } from '@livery/sds-server'
import type { LedgerEvent } from './agent-event.ts'
import { rowOf } from './event-table.ts'

export interface LedgerEntry {
  /** Milliseconds since the epoch; the latest time if there are several. */
  readonly time: number
  readonly event: LedgerEvent
  /** How often it happened, if more than once: the same push to a thousand streams is one entry. */
  readonly count?: number
}

/** A report that is about a secret with a name. */
type NamedReport = Extract<StreamReport, { readonly name: string }>

const EVENTS_PER_NAME = 32
/** How far back an entry may be to be counted up: pushes and ACKs of one version alternate. */
const REPEATS_WITHIN = 4
const MAX_UNKNOWN_NAMES = 1_000

type Ring = { time: number; event: LedgerEvent; count?: number }[]

/** Keeps the last 32 events of each held name, and of the 1,000 other most recent names. */
export class Ledger {
  readonly #held = new Map<string, Ring>()
  readonly #unknownNames = new Map<string, Ring>()
  readonly #isHeld: (name: string) => boolean

  /** `isHeld` is asked with each event except pushes and ACKs: it answers `false` from a name's last event on. */
  constructor(isHeld: (name: string) => boolean) {
    this.#isHeld = isHeld
  }

  record(name: string, { time, event }: LedgerEntry): void {
    const isResponse = event.kind === 'pushed' || event.kind === 'acked'
    const held = isResponse ? this.#held.get(name) : undefined
    const ring = held ?? (this.#isHeld(name) ? this.#ringOf(name) : this.#unknownRing(name))
    for (let index = ring.length - 1; index >= Math.max(0, ring.length - REPEATS_WITHIN); index--) {
      const entry = ring[index]
      // Earlier events are separate entries after a new certificate, though they read the same.
      if (!entry || entry.event.kind === 'issued') break
      if (entry.event.kind !== event.kind || !rowOf(event).repeats(entry.event, event)) continue
      entry.time = time
      entry.event = event
      entry.count = (entry.count ?? 1) + 1
      return
    }
    if (ring.push({ time, event }) > EVENTS_PER_NAME) ring.shift()
  }

  /** Sorted by their latest times; empty for an unknown name. */
  entries(name: string): readonly LedgerEntry[] {
    const ring = this.#held.get(name) ?? this.#unknownNames.get(name) ?? []
    return ring.toSorted((one, other) => one.time - other.time)
  }

  #ringOf(name: string): Ring {
    const present = this.#held.get(name)
    if (present) return present
    const ring = this.#unknownNames.get(name) ?? []
    this.#unknownNames.delete(name)
    this.#held.set(name, ring)
    return ring
  }

  #unknownRing(name: string): Ring {
    const ring = this.#held.get(name) ?? this.#unknownNames.get(name) ?? []
    this.#held.delete(name)
    this.#unknownNames.delete(name)
    this.#noteUnknown(name, ring)
    return ring
  }

  #noteUnknown(name: string, ring: Ring): void {
    this.#unknownNames.set(name, ring)
    if (this.#unknownNames.size <= MAX_UNKNOWN_NAMES) return
    for (const oldest of this.#unknownNames.keys()) {
      this.#unknownNames.delete(oldest)
      break
    }
  }
}

/** A stream event in the ledger's form; `peer` identifies its client. */
export function toLedgerEvent(report: NamedReport, peer: string): LedgerEvent {
  switch (report.kind) {
    case 'asked':
      return { kind: 'asked', by: peer }
    case 'refused':
    case 'postponed':
      return { kind: report.kind, by: peer, reason: report.reason }
    case 'pushed':
      return { kind: 'pushed', to: peer, version: report.version }
    case 'acked':
      return { kind: 'acked', by: peer, version: report.version }
    case 'nacked':
      return { kind: 'nacked', by: peer, version: report.version, detail: report.detail }
  }
}
