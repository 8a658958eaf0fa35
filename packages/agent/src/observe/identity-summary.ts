/** One pass over all identities for a scrape: counts by state and failure, remaining life, and the identities with separate series. */
import { FAILURE_CODES, type FailureCode, IDENTITY_STATES, type IdentityEntry, type IdentityState } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import { type IdentityList, lookAtAll } from '../diagnosis/diagnosis.ts'
import { failureCause, isAbsence, judge, lifeLeft, type Moment } from '../diagnosis/identity-verdict.ts'
import { Lowest } from '../diagnosis/lowest.ts'
import { NewestCertificate } from '../diagnosis/newest-certificate.ts'
import type { Severity } from '../diagnosis/problem.ts'
import type { LoopTurns } from './loop-turns.ts'

/** An identity with separate series. */
export interface OwnSeries {
  readonly identity: SpiffeId
  /** Milliseconds since the epoch. */
  readonly notAfter: number
}

/** Limit of identities with separate series: more would cost the scraper too much. */
const MAX_OWN_SERIES = 1_000
/** Above that limit only the certificates with the least life left have series. */
const LEAST_LEFT = 100

/** Looks at every identity, in its state at that moment, with turns for other work in between. */
export async function summarize(list: IdentityList, moment: Moment, turns: LoopTurns): Promise<IdentitySummary> {
  const summary = new IdentitySummary(moment)
  await lookAtAll(list, turns, entry => summary.add(entry))
  return summary
}

export class IdentitySummary {
  readonly states = new Map<IdentityState, number>(
    IDENTITY_STATES.filter(state => state !== 'forgotten').map(state => [state, 0]),
  )
  /** Identities whose attempts fail, with and without a certificate, by the code of the current cause. */
  readonly failing = new Map<FailureCode, number>(FAILURE_CODES.map(code => [code, 0]))
  /** Certificates whose renewal is late, by severity. */
  readonly late = new Map<Severity, number>([
    ['warning', 0],
    ['critical', 0],
  ])
  /** Seconds until each served certificate ends. */
  readonly remaining: number[] = []
  readonly #moment: Moment
  #earliestEnd: number | undefined
  #leastRemaining: number | undefined
  #leastLasting: number | undefined
  readonly #newest = new NewestCertificate()
  /** Kept while they are few. */
  readonly #served: OwnSeries[] = []
  readonly #leastLeft = new Lowest<OwnSeries>(LEAST_LEFT)

  constructor(moment: Moment) {
    this.#moment = moment
  }

  add(entry: IdentityEntry): void {
    const { identity, state, secret, lastsUntil } = entry
    const { now } = this.#moment
    increase(this.states, state)
    const code = failureCode(entry, this.#moment)
    if (code) increase(this.failing, code)
    for (const { late } of judge(entry, this.#moment)) if (late) increase(this.late, late)
    if (lastsUntil !== undefined) this.#leastLasting = Math.min(lastsUntil, this.#leastLasting ?? lastsUntil)
    if (!secret) return
    const { notAfter } = secret
    this.remaining.push(Math.max(0, notAfter - now) / 1000)
    // Copies the fields, since the entry would hold the certificate until the next scrape.
    const own = { identity, notAfter }
    if (this.#served.length < MAX_OWN_SERIES) this.#served.push(own)
    this.#leastLeft.offer(notAfter, own)
    if (this.#earliestEnd === undefined || notAfter < this.#earliestEnd) this.#earliestEnd = notAfter
    const part = lifeLeft(entry, now)
    if (this.#leastRemaining === undefined || part < this.#leastRemaining) this.#leastRemaining = part
    this.#newest.look(entry)
  }

  /** When the first served certificate ends, milliseconds since the epoch; `undefined` without one. */
  get earliestEnd(): number | undefined {
    return this.#earliestEnd
  }

  /** When the first identity would lose its certificate without the CA, milliseconds since the epoch; `undefined` if none has one. */
  get leastLasting(): number | undefined {
    return this.#leastLasting
  }

  /** The smallest remaining part of a certificate's life, from 1 to 0; `undefined` without one. */
  get leastRemaining(): number | undefined {
    return this.#leastRemaining
  }

  /** When the newest certificate in use came, milliseconds since the epoch. */
  get lastIssuedAt(): number | undefined {
    return this.#newest.found?.at
  }

  /** Milliseconds. A CA back-dates by a constant, so a change here is a change of its clock or ours. */
  get caClockAhead(): number | undefined {
    const { found } = this.#newest
    return found && found.notBefore - found.at
  }

  /** Identities with a certificate: all, or above 1,000 only the 100 with the least life left. */
  get ownSeries(): readonly OwnSeries[] {
    return this.#leastLeft.count <= MAX_OWN_SERIES ? this.#served : this.#leastLeft.items()
  }
}

function failureCode(entry: IdentityEntry, moment: Moment): FailureCode | undefined {
  const code = entry.hold === 'removed' ? undefined : entry.lastFailure?.code
  const cause = code && failureCause(entry, moment)
  if (code === undefined || cause === undefined) return undefined
  return cause === 'ca-down' && !isAbsence(code) ? 'unavailable' : code
}

function increase<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
