/** Whether the agent serves what it is configured for, and if not, what it waits for. */
import type { IdentityEntry } from '@livery/core'
import { formatAge } from './format-age.ts'
import { isMereWish } from './identity-summary.ts'
import { Lowest } from './lowest.ts'

/** Where the agent is in its life. */
export type Phase = 'starting' | 'serving' | 'draining'

/** A socket as the SDS server sees it. */
export interface SocketStatus {
  readonly path: string
  /**
   * `waiting`: another process listens on the path. `superseded`: another process took the path, and this one serves the
   * connections that it had.
   */
  readonly state: 'listening' | 'waiting' | 'superseded' | 'closed'
  /** Why it is waiting, with the remedy. */
  readonly reason?: string
}

/** The state of the watch of this node's pods. */
export interface PodsStatus {
  /** Whether they have been listed. */
  readonly known: boolean
  /** Why that is not up to date. */
  readonly problem: string | undefined
}

/**
 * The question of the reader. `sockets`: are they bound. `default`: that, and is there something valid to serve.
 * `strict`: that, and does every identity have a valid certificate, and can it be renewed.
 */
export const READINESS_MODES = ['default', 'strict', 'sockets'] as const
export type ReadinessMode = (typeof READINESS_MODES)[number]

export interface Readiness {
  readonly ready: boolean
  /** Why it is not ready, one line each; empty when it is. */
  readonly waitingFor: readonly string[]
  /** Identities without a valid certificate that do not count (yet), one line each. */
  readonly tolerated: readonly string[]
  /** Renewals that fail while the certificate is valid, and count. */
  readonly failing: FailingRenewals
  /** Others, which do not count (yet). */
  readonly failingNotCounted: FailingRenewals
  /** Other faults, which do not count, one per line. */
  readonly notes: readonly string[]
}

export interface FailingRenewals {
  readonly count: number
  /** One line each, of the hundred with the least life left, those first. */
  readonly lines: readonly string[]
}

/** How long a new identity may be without a certificate while another has one, or a renewal fail, before that counts. */
export const GRACE_MS = 60_000

/** All but the identities. */
export interface ReadinessFacts {
  readonly phase: Phase
  readonly sockets: readonly SocketStatus[]
  /** `undefined` if the configuration has no section `kubernetes`. */
  readonly pods?: PodsStatus | undefined
  /** Why the admin or the health endpoint does not listen, one line each. */
  readonly endpointProblems?: readonly string[]
  readonly now: number
  readonly mode: ReadinessMode
}

/**
 * Ready by default: every socket is bound, and every identity has a valid certificate. Not counted are identities in
 * their first minute, those that fail at the CA, and those that were only ever asked for on demand, as long as another
 * identity has a valid certificate: a CA that refuses one must not take the others out of service. An identity that
 * needs no certificate (idle or removed) never counts.
 */
export function readiness({
  entries,
  ...facts
}: ReadinessFacts & { readonly entries: Iterable<IdentityEntry> }): Readiness {
  const review = new ReadinessReview(facts)
  for (const entry of entries) review.look(entry)
  return review.result()
}

/** {@link readiness} of identities that come one by one. */
export class ReadinessReview {
  readonly #facts: ReadinessFacts
  readonly #missing: MissingCertificates
  readonly #renewals: RenewalFailures

  constructor(facts: ReadinessFacts) {
    this.#facts = facts
    this.#missing = new MissingCertificates(facts.now, facts.mode)
    this.#renewals = new RenewalFailures(facts.now, facts.mode)
  }

  look(entry: IdentityEntry): void {
    const missing = this.#missing
    if (hasValidCertificate(entry, this.#facts.now)) {
      missing.isServing = true
      this.#renewals.look(entry)
    } else missing.look(entry)
  }

  result(): Readiness {
    const { pods, endpointProblems = [], mode } = this.#facts
    const missing = this.#missing
    const waitingFor = unboundSockets(this.#facts)
    // A pod is served once it is known. Later it is held though the API server is away.
    if (pods?.known === false)
      waitingFor.push(`the list of the pods of this node: ${pods.problem ?? 'it is on the way'}`)
    const notes = [
      ...(pods?.known && pods.problem !== undefined ? [`pods that come or go are not seen: ${pods.problem}`] : []),
      ...endpointProblems,
    ]
    const facts = { waitingFor, notes, ...this.#renewals.listed() }
    if (mode === 'sockets') return { ...facts, ready: waitingFor.length === 0, tolerated: missing.all() }
    if (missing.nothingIsServed) {
      const { tolerated } = missing
      if (tolerated.length > 0) waitingFor.push('a valid certificate: no identity has one, and these are without')
      return { ...facts, ready: false, waitingFor: [...waitingFor, ...missing.all()], tolerated: [] }
    }
    waitingFor.push(...missing.counted)
    const { tolerated } = missing
    return { ...facts, ready: waitingFor.length === 0 && facts.failing.count === 0, tolerated }
  }
}

function unboundSockets({
  phase,
  sockets,
}: {
  readonly phase: Phase
  readonly sockets: readonly SocketStatus[]
}): string[] {
  if (phase === 'starting') return ['the sockets to be bound']
  if (phase === 'draining') return ['nothing: it is shutting down']
  return sockets
    .filter(({ state }) => state !== 'listening')
    .map(({ path, state, reason }) => `socket ${path}: ${state}${reason === undefined ? '' : `: ${reason}`}`)
}

/** The identities that need a certificate and have none that is valid now. */
class MissingCertificates {
  readonly counted: string[] = []
  readonly tolerated: string[] = []
  /** Whether another identity has one. */
  isServing = false
  readonly #now: number
  readonly #mode: ReadinessMode
  #isWanted = false

  constructor(now: number, mode: ReadinessMode) {
    this.#now = now
    this.#mode = mode
  }

  /** Every identity that should have one is without: no grace hides that, since a rolling update goes on when the agent is ready. */
  get nothingIsServed(): boolean {
    return !this.isServing && this.#isWanted
  }

  all(): string[] {
    return [...this.counted, ...this.tolerated]
  }

  look(entry: IdentityEntry): void {
    if (entry.state === 'idle' || entry.hold === 'removed') return
    const isYoung = this.#now - entry.addedAt < GRACE_MS
    const { lastFailure } = entry
    // Otherwise any caller could make the agent unready.
    const isWish = isMereWish(entry)
    const isForgiven = this.#mode !== 'strict' && (isYoung || isWish || lastFailure !== undefined)
    ;(isForgiven ? this.tolerated : this.counted).push(`${entry.identity}: ${whyMissing(lastFailure, isYoung)}`)
    if (!isWish) this.#isWanted = true
  }
}

/** The identities that have a valid certificate, and fail to get the next one. */
class RenewalFailures {
  readonly #now: number
  readonly #mode: ReadinessMode
  readonly #counted = new Lowest<IdentityEntry>(LINES)
  readonly #notCounted = new Lowest<IdentityEntry>(LINES)

  constructor(now: number, mode: ReadinessMode) {
    this.#now = now
    this.#mode = mode
  }

  look(entry: IdentityEntry): void {
    const { failingSince, hold, secret } = entry
    if (failingSince === undefined || hold === 'removed') return
    const counts = this.#mode === 'strict' && this.#now - failingSince >= GRACE_MS
    ;(counts ? this.#counted : this.#notCounted).offer(secret?.notAfter ?? 0, entry)
  }

  listed(): Pick<Readiness, 'failing' | 'failingNotCounted'> {
    return { failing: this.#list(this.#counted), failingNotCounted: this.#list(this.#notCounted) }
  }

  #list(entries: Lowest<IdentityEntry>): FailingRenewals {
    return { count: entries.count, lines: entries.items().map(entry => this.#line(entry)) }
  }

  #line({ identity, failingSince = 0, renewAt, secret, lastFailure }: IdentityEntry): string {
    const age = formatAge(this.#now - failingSince)
    const next =
      renewAt === undefined ? 'an attempt is queued or in flight' : `next try in ${formatAge(renewAt - this.#now)}`
    const left = formatAge((secret?.notAfter ?? 0) - this.#now)
    return `${identity}: has failed for ${age}, ${next}, its certificate ends in ${left} (${lastFailure?.code}): ${lastFailure?.message}`
  }
}

export function hasValidCertificate({ secret }: IdentityEntry, now: number): boolean {
  return secret !== undefined && secret.notBefore <= now && now < secret.notAfter
}

function whyMissing(failure: IdentityEntry['lastFailure'], isYoung: boolean): string {
  if (failure) return `the CA fails (${failure.code}): ${failure.message}`
  return isYoung ? 'its first certificate is on the way' : 'no certificate after its first minute'
}

const LINES = 100
/** The text of a CA's failure can be long, and a hundred identities can have the same. */
const LINE_CHARS = 600

/** Plain text for people and probes: the verdict first, then up to 100 lines of each list. */
export function readinessText(readiness: Readiness): string {
  const { ready, waitingFor, tolerated, failing, failingNotCounted, notes } = readiness
  const lines = [
    ready ? 'ready' : 'not ready',
    ...section('waiting for', waitingFor),
    ...section('renewals that fail', failing.lines, failing.count),
    ...section('without a certificate, not counted', tolerated),
    ...section('renewals that fail, not counted', failingNotCounted.lines, failingNotCounted.count),
    ...section('not counted', notes),
  ]
  return `${lines.join('\n')}\n`
}

function section(title: string, items: readonly string[], count = items.length): string[] {
  if (count === 0) return []
  const shown = items.slice(0, LINES).map(item => `  ${cutLine(item)}`)
  return [`${title}:`, ...shown, ...(count > LINES ? [`  and ${count - LINES} more`] : [])]
}

function cutLine(line: string): string {
  return line.length > LINE_CHARS ? `${line.slice(0, LINE_CHARS)}…` : line
}
