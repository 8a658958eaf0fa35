/** Problems of the identities, which are added one by one; one problem per cause. */
import type { IdentityEntry } from '@livery/core'
import {
  hasValidCertificate,
  type IdentityCause,
  isAbsence,
  isMereWish,
  judge,
  type Moment,
  type Verdict,
} from './identity-verdict.ts'
import { Lowest } from './lowest.ts'
import {
  type Affected,
  type AffectedIdentity,
  bySeverity,
  type Effect,
  type Problem,
  type Severity,
} from './problem.ts'
import { counted, shellWord } from './problem-text.ts'
import { isRefusedAlone, type RunbookPage, remedyOf } from './remedies.ts'

/** The CA answers requests of the same start in any order. */
const TOGETHER_MS = 10_000
/** A certificate that ends sooner is urgent. */
const SOON_MS = 15 * 60_000

export class IdentityProblems {
  readonly #moment: Moment
  readonly #groups = new Map<IdentityCause, Group>()
  /** The last issue time of each identity that does not fail. */
  readonly #issuedAt: number[] = []
  #isServing = false
  #isWanted = false
  #soonestEnd: number | undefined

  constructor(moment: Moment) {
    this.#moment = moment
  }

  look(entry: IdentityEntry): void {
    const { failingSince, lastSuccessAt, secret, state, hold } = entry
    const isValid = hasValidCertificate(entry, this.#moment.now)
    if (isValid) this.#isServing = true
    // An identity that is being removed needs no certificate.
    if (hold === 'removed') return
    if (secret && state !== 'idle' && secret.notAfter < (this.#soonestEnd ?? Number.POSITIVE_INFINITY))
      this.#soonestEnd = secret.notAfter
    if (failingSince === undefined && lastSuccessAt !== undefined) this.#issuedAt.push(lastSuccessAt)
    for (const verdict of judge(entry, this.#moment)) {
      if (!isValid && !isMereWish(entry)) this.#isWanted = true
      const group = this.#groups.get(verdict.cause) ?? new Group()
      this.#groups.set(verdict.cause, group)
      group.add(entry, verdict)
    }
  }

  problems(): readonly Problem[] {
    const { downSince } = this.#moment
    if (downSince !== undefined && !this.#groups.has('ca-down')) this.#groups.set('ca-down', new Group())
    return [...this.#groups].map(([cause, group]) => this.#problem(cause, group))
  }

  /** No wanted identity has a certificate. No grace hides that, since a rolling update goes on when the agent is ready. */
  get #isNothingServed(): boolean {
    return this.#isWanted && !this.#isServing
  }

  #problem(cause: IdentityCause, group: Group): Problem {
    const affected = group.affected(this.#isNothingServed)
    const { severity } = group
    const given = { code: cause, severity, ...group.since, reason: group.reason, commands: group.commands(), affected }
    return { ...given, ...unreadyOf(affected), ...this.#words(cause, group, affected) }
  }

  #words(cause: IdentityCause, group: Group, affected: readonly Affected[]) {
    switch (cause) {
      case 'ca-down':
        return this.#caDown(group, affected)
      case 'first-certificate':
        return {
          severity: this.#isNothingServed ? 'warning' : 'pending',
          what: `${counted(group.count, 'identity waits for its', 'identities wait for their')} first certificate`,
          reason: this.#isNothingServed ? 'no identity has a valid certificate yet' : 'they are on the way',
          remedy: WAITS,
          runbook: 'identities-failing',
        } as const
      case 'late':
        return {
          ...group.ends,
          what: `${group.certificates} should have been renewed`,
          reason:
            'Less than a quarter of the life is left, and no attempt has failed: the request waits, or the next certificate is held back.',
          remedy: WAITS,
          runbook: 'certificate-not-renewed',
        } as const
      case 'clients-refuse':
        return {
          what: `Clients would refuse ${group.certificates.replace(/^The/, 'the')}`,
          remedy: 'Compare the roots that are served with the one that the CA signs with.',
          commands: ['livery doctor', 'livery trust status', ...group.commands().slice(-1)],
          runbook: 'certificate-not-renewed',
        } as const
      case 'revoked':
        return {
          what: `${group.certificates} ${group.count === 1 ? 'is revoked: peers refuse it' : 'are revoked: peers refuse them'}`,
          remedy: remedyOf(cause, 0),
          runbook: 'certificate-revoked',
        } as const
      default:
        return this.#failing(cause, group, affected)
    }
  }

  #failing(cause: string, group: Group, affected: readonly Affected[]) {
    const issuedToOthers = this.#issuedAt.filter(at => at >= group.refusedFrom).length
    const isSilent = cause === 'no-answer'
    return {
      what: `${group.effects(affected)}${isSilent ? '' : ` (${cause})`}${has(affected, 'expired') ? ': new connections fail' : ''}`,
      ...(!isWithout(affected) && group.ends),
      ...(isSilent && { reason: 'No certificate came, and no attempt has failed.' }),
      remedy: isSilent ? WAITS : remedyOf(cause, issuedToOthers),
      // The doctor asks the CA for the first identity, which says nothing about one that is refused alone.
      ...(!isRefusedAlone(cause, issuedToOthers) && { commands: ['livery doctor', ...group.commands()] }),
      runbook: runbookOf(affected, group.isLate),
    } as const
  }

  /** The newest failure of the CA is the reason. Failures from before the outage wait for its end, and come after. */
  #caDown(group: Group, affected: readonly Affected[]) {
    const { now, downSince = now } = this.#moment
    const isSoon = this.#soonestEnd === undefined || this.#soonestEnd - now < SOON_MS
    return {
      since: downSince,
      severity: isSoon || group.severity === 'critical' ? 'critical' : 'warning',
      what: `The CA does not answer${group.count === 0 ? '' : `: ${group.effects(affected)}`}`,
      ...(this.#soonestEnd !== undefined && { ends: this.#soonestEnd }),
      reason: `${group.reason} ${group.beforeOutage}`.trim(),
      remedy: remedyOf('ca-down', 0),
      commands: ['livery ca test', 'livery doctor'],
      runbook: 'ca-down',
    } as const
  }
}

const WAITS = 'The events of the identity say what the agent waits for.'

/** Identities whose trouble has one cause. */
class Group {
  count = 0
  /** The severity of its worst member. */
  severity: Severity = 'pending'
  isLate = false
  /** The CA refuses only this group if it issued to any other identity after this time. */
  refusedFrom = 0
  #since = Number.POSITIVE_INFINITY
  readonly #buckets = new Map<string, { readonly verdict: Verdict; readonly lowest: Lowest<Judged> }>()
  /** The one whose certificate ends first. */
  #worst: IdentityEntry | undefined
  #newest: { readonly at: number; readonly text: string } | undefined
  /** Identities that failed before the outage, and the newest of these failures. */
  #before = { count: 0, at: 0, text: '' }

  add(entry: IdentityEntry, verdict: Verdict): void {
    const { secret, failingSince, addedAt, lastFailure, lastSuccessAt } = entry
    const { effect, unready, reason, cause, severity, late } = verdict
    this.count++
    // The pre-flight does not record when it began to refuse.
    const begun = cause === 'clients-refuse' ? undefined : failingSince
    this.#since = Math.min(this.#since, begun ?? (secret ? Number.POSITIVE_INFINITY : addedAt))
    // An earlier success proves nothing for a renewal: the shared token may have ended since.
    const since = failingSince ?? 0
    const from = lastSuccessAt === undefined ? Math.max(addedAt, since - TOGETHER_MS) : since
    this.refusedFrom = Math.max(this.refusedFrom, from)
    if (!this.#worst || (secret?.notAfter ?? 0) < (this.#worst.secret?.notAfter ?? 0)) this.#worst = entry
    if (bySeverity(severity, this.severity) < 0) this.severity = severity
    if (late) this.isLate = true
    if (cause === 'clients-refuse') this.#note(0, reason)
    else if (lastFailure && failingSince !== undefined) {
      const { code, message, at, local } = lastFailure
      if (cause === 'ca-down' && !isAbsence(code) && !local) this.#noteBefore(lastFailure)
      else this.#note(at, cause === 'ca-down' ? `${code}: ${message.replace(/\.?$/, '.')}` : message)
    }
    const key = `${effect} ${unready}`
    const bucket = this.#buckets.get(key) ?? { verdict, lowest: new Lowest<Judged>(LISTED) }
    this.#buckets.set(key, bucket)
    bucket.lowest.offer(secret?.notAfter ?? 0, { entry, reason })
  }

  get reason(): string {
    return this.#newest?.text ?? ''
  }

  /** When the first of them began to fail, or should have had a certificate. */
  get since(): { readonly since?: number } {
    return this.#since === Number.POSITIVE_INFINITY ? {} : { since: this.#since }
  }

  get ends(): { readonly ends?: number } {
    const ends = this.#worst?.secret?.notAfter
    return ends === undefined ? {} : { ends }
  }

  affected(isNothingServed: boolean): readonly Affected[] {
    return Array.from(this.#buckets.values(), ({ verdict: { effect, unready }, lowest }) => {
      const counts = isNothingServed && isWithout([{ effect }]) ? 'default' : unready
      return { effect, ...(counts && { unready: counts }), count: lowest.count, listed: lowest.items().map(listed) }
    })
  }

  /** `Before the outage 928 identities failed (unauthenticated): …`, or nothing. */
  get beforeOutage(): string {
    const { count, text } = this.#before
    return count === 0 ? '' : `Before the outage ${counted(count, 'identity', 'identities')} failed ${text}`
  }

  /** `The certificate of spiffe://…`, `3 certificates`. */
  get certificates(): string {
    return this.count === 1 ? `The certificate of ${this.#worst?.identity}` : counted(this.count, 'certificate')
  }

  /** `spiffe://… has no certificate`; `1 certificate expired, 2 identities have no certificate`. */
  effects(affected: readonly Affected[]): string {
    const name = this.count === 1 ? this.#worst?.identity : undefined
    return EFFECTS.flatMap(([effect, named, one, many]) => {
      const count = affected.reduce((sum, each) => sum + (each.effect === effect ? each.count : 0), 0)
      if (count === 0) return []
      return [name === undefined ? counted(count, one, many) : named.replace('NAME', () => name)]
    }).join(', ')
  }

  commands(): readonly string[] {
    const name = this.#worst?.identity
    if (name === undefined) return []
    const explain = `livery explain ${shellWord(name)}`
    return this.count === 1 ? [explain] : ['livery certs --failing', explain]
  }

  #note(at: number, text: string): void {
    if (!this.#newest || at > this.#newest.at) this.#newest = { at, text }
  }

  #noteBefore({ code, at, message }: NonNullable<IdentityEntry['lastFailure']>): void {
    const { count, ...newest } = this.#before
    this.#before = { count: count + 1, ...(at >= newest.at ? { at, text: `(${code}): ${message}` } : newest) }
  }
}

const LISTED = 100

interface Judged {
  readonly entry: IdentityEntry
  readonly reason: string
}

function listed({ entry: { identity, failingSince, renewAt, secret }, reason }: Judged): AffectedIdentity {
  return { name: identity, reason, failingSince, renewAt, notAfter: secret?.notAfter }
}

/** Wording for one identity, and for several by number. */
const EFFECTS = [
  ['expired', 'The certificate of NAME expired', 'certificate expired', 'certificates expired'],
  ['missing', 'NAME has no certificate', 'identity has no certificate', 'identities have no certificate'],
  ['not-renewed', 'NAME is not renewed', 'certificate is not renewed', 'certificates are not renewed'],
] as const

function has(affected: readonly Pick<Affected, 'effect'>[], effect: Effect): boolean {
  return affected.some(each => each.effect === effect)
}

function isWithout(affected: readonly Pick<Affected, 'effect'>[]): boolean {
  return has(affected, 'expired') || has(affected, 'missing')
}

function runbookOf(affected: readonly Affected[], isLate: boolean): RunbookPage {
  if (has(affected, 'expired')) return 'certificate-expired'
  return !has(affected, 'missing') && isLate ? 'certificate-not-renewed' : 'identities-failing'
}

/** The least strict of them. */
function unreadyOf(affected: readonly Affected[]): Pick<Problem, 'unready'> {
  if (affected.some(({ unready }) => unready === 'default')) return { unready: 'default' }
  return affected.some(({ unready }) => unready === 'strict') ? { unready: 'strict' } : {}
}
