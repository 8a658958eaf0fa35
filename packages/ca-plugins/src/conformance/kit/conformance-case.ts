/** One case of the kit, and what it works on: a client at a live CA, or one at a fake CA with switches. */
import type { CACapabilities, CAClient, Clock, KeyType, SpiffeId } from '@livery/core/plugin'
import type { FakeCA } from './fake-ca.ts'
import type { CASwitch } from './fake-ca-fault.ts'
import type { KitContext } from './kit-context.ts'
import type { OpenedResources } from './opened-resources.ts'

export const GROUPS = [
  'contract',
  'names',
  'ttl',
  'errors',
  'answers',
  'cancellation',
  'parallel',
  'token',
  'roots',
  'skew',
  'memory',
  'tickets',
  'handles',
  'close',
] as const
export type ConformanceGroup = (typeof GROUPS)[number]

/** The parts that every case has. */
export interface Subject {
  readonly client: CAClient
  readonly capabilities: CACapabilities
  readonly clock: Clock
  /** One or more. */
  readonly identities: readonly SpiffeId[]
  readonly keyType: KeyType
  readonly ttlSeconds: number
  /** How many requests are made at once. */
  readonly parallel: number
  /** The longest that a call may take which has no reason to wait. */
  readonly patienceMs: number
  /** Roots (PEM) that are known beside those that the client lists. */
  readonly roots: () => readonly string[]
  /** The CA, if the suite controls it. */
  readonly ca?: FakeCA
}

/** A subject with a CA that the suite controls. */
export interface Bench extends Subject {
  readonly ca: FakeCA
  readonly context: KitContext
  /** The handles that the client, its server and the case have opened. */
  readonly opened: OpenedResources
  /** How long the client gives one call; `undefined`: nobody says. */
  readonly timeoutMs: number | undefined
  /** Whether there is time for 1,000 requests at once. */
  readonly slow: boolean
  /** Another client of the same CA, as after a restart. It is closed with the bench. */
  reopen(): Promise<CAClient>
}

interface Case<On> {
  readonly group: ConformanceGroup
  /** A sentence that states what holds. */
  readonly name: string
  /** Why it does not apply to such a CA; `undefined` if it does. */
  readonly skip?: (capabilities: CACapabilities) => string | undefined
  run(on: On): Promise<void>
}

/** Works at any CA. */
export type LiveCase = Case<Subject>

/** Needs a CA with switches. */
export interface BenchCase extends Case<Bench> {
  /** The switches that the harness has to pass on. */
  readonly needs?: readonly CASwitch[]
  /** Whether the CA signs through two intermediates; default `true`. */
  readonly intermediates?: boolean
  /** Whether it runs only where there is time. */
  readonly slow?: boolean
}

export function unlessBringsKey({ bringsKey = false }: CACapabilities): string | undefined {
  return bringsKey ? 'the source brings its own key' : undefined
}
