/** Identities without a certificate, and those whose certificate is not renewed. */

import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageIdentity } from '../../../agent/src/page/state.ts'
import { issuedMeanwhile } from '../identities/issued-meanwhile.ts'
import { latenessOf, lifeOf } from '../identities/life.ts'
import { isRefusedAlone, isUnreachable, remedyOf } from '../parts/remedies.ts'
import { counted, shellWord, visible } from '../parts/text.ts'
import type { Facts } from './facts.ts'
import type { Problem } from './problem.ts'

/** Identities in the same trouble; `worst`: the one whose certificate ends first. */
class Group {
  count = 0
  worst: PageIdentity | undefined
  /** When the last of them began to fail. */
  since = 0

  add(identity: PageIdentity): void {
    this.count++
    this.since = Math.max(this.since, identity.failure?.since ?? 0)
    if (this.worst === undefined || (identity.notAfter ?? 0) < (this.worst.notAfter ?? 0)) this.worst = identity
  }
}

/** A list for each code of failure. */
class GroupsByCode {
  readonly byCode = new Map<string, Group>()

  add(identity: PageIdentity): void {
    const code = identity.failure?.code ?? 'no answer yet'
    const group = this.byCode.get(code) ?? new Group()
    group.add(identity)
    this.byCode.set(code, group)
  }
}

/** Renewals that wait for a CA that is away are one problem: that of the CA. */
export function identityProblems({ identities, overview, now }: Facts): Problem[] {
  const expired = new Group()
  const without = new GroupsByCode()
  const failing = new GroupsByCode()
  const late = new Group()
  const refused = new Group()
  for (const identity of identities.values()) {
    if (identity.hold === 'removed') continue
    if (identity.state === 'Expired') expired.add(identity)
    else if (identity.failure && identity.notAfter === undefined) without.add(identity)
    else if (identity.failure) failing.add(identity)
    else if (isLate(identity, now)) late.add(identity)
    if (identity.warning !== undefined) refused.add(identity)
  }
  const isDown = overview.ca.pause?.reason === 'ca-down'
  const ofCA = (code: string): boolean => isDown && isUnreachable(code)
  const issuedTo = ({ since }: Group): number => issuedMeanwhile(identities, since)
  return [
    ...problemsOf(expired, (worst, count) => expiredProblem(worst, count, issuedTo(expired))),
    ...[...without.byCode]
      .filter(([code]) => !ofCA(code))
      .flatMap(([code, group]) =>
        problemsOf(group, (worst, count) => withoutProblem(worst, count, { code, issuedToOthers: issuedTo(group) })),
      ),
    ...[...failing.byCode]
      .filter(([code]) => !ofCA(code))
      .flatMap(([code, group]) =>
        problemsOf(group, (worst, count) =>
          failingProblem(worst, count, { code, issuedToOthers: issuedTo(group), now }),
        ),
      ),
    ...problemsOf(late, (worst, count) => lateProblem(worst, count, now)),
    ...problemsOf(refused, refusedProblem),
  ]
}

function problemsOf({ worst, count }: Group, make: (worst: PageIdentity, count: number) => Problem): Problem[] {
  return worst ? [make(worst, count)] : []
}

function isLate(identity: PageIdentity, now: number): boolean {
  const life = lifeOf(identity, now)
  return life !== undefined && life.leftMs > 0 && latenessOf(life) !== 'in time'
}

function expiredProblem(worst: PageIdentity, count: number, issuedToOthers: number): Problem {
  const { name, failure } = worst
  return {
    severity: 'critical',
    what: `${subject(worst, count, 'certificate')} expired: new connections fail`,
    why: failure
      ? `${visible(failure.code)}: ${failureText(worst)}`
      : 'No new certificate came before the old one ended.',
    remedy: failure
      ? remedyOf(failure.code, issuedToOthers)
      : 'The events of the identity say what the agent waits for.',
    commands: failure
      ? commandsOfRefusal(worst, count, { code: failure.code, issuedToOthers })
      : commandsOf(worst, count),
    runbook: 'certificate-expired',
    view: 'identities',
    ...(count === 1 && { name }),
  }
}

/** `issuedToOthers`: how many identities got a certificate meanwhile. */
interface Refusal {
  readonly code: string
  readonly issuedToOthers: number
}

function withoutProblem(worst: PageIdentity, count: number, refusal: Refusal): Problem {
  const { code, issuedToOthers } = refusal
  return {
    severity: 'critical',
    what:
      count === 1
        ? `${visible(worst.name)} has no certificate (${code})`
        : `${counted(count, 'identity', 'identities')} have no certificate (${code})`,
    why: failureText(worst),
    remedy: remedyOf(code, issuedToOthers),
    commands: commandsOfRefusal(worst, count, refusal),
    runbook: 'identities-failing',
    view: 'identities',
    ...(count === 1 && { name: worst.name }),
  }
}

function failingProblem(
  worst: PageIdentity,
  count: number,
  { now, ...refusal }: Refusal & { readonly now: number },
): Problem {
  const { code, issuedToOthers } = refusal
  const life = lifeOf(worst, now)
  const lateness = life ? latenessOf(life) : 'very late'
  const left = formatAge(life?.leftMs ?? 0)
  if (code === 'revoked') return revokedProblem(worst, count)
  return {
    severity: lateness === 'very late' ? 'critical' : 'warning',
    what:
      count === 1
        ? `${visible(worst.name)} is not renewed (${code}): its certificate ends in ${left}`
        : `${counted(count, 'certificate')} are not renewed (${code}): the first one ends in ${left}`,
    why: failureText(worst),
    remedy: remedyOf(code, issuedToOthers),
    commands: commandsOfRefusal(worst, count, refusal),
    runbook: lateness === 'in time' ? 'identities-failing' : 'certificate-not-renewed',
    view: 'identities',
    ...(count === 1 && { name: worst.name }),
  }
}

function revokedProblem(worst: PageIdentity, count: number): Problem {
  return {
    severity: 'critical',
    what: `${subject(worst, count, 'certificate')} ${count === 1 ? 'is' : 'are'} revoked: peers refuse ${count === 1 ? 'it' : 'them'}`,
    why: failureText(worst),
    remedy: remedyOf('revoked', 0),
    commands: commandsOf(worst, count),
    runbook: 'certificate-revoked',
    view: 'identities',
    ...(count === 1 && { name: worst.name }),
  }
}

function lateProblem(worst: PageIdentity, count: number, now: number): Problem {
  const life = lifeOf(worst, now)
  return {
    severity: life && latenessOf(life) === 'very late' ? 'critical' : 'warning',
    what: `${subject(worst, count, 'certificate')} should have been renewed: ${count === 1 ? 'it' : 'the first one'} ends in ${formatAge(life?.leftMs ?? 0)}`,
    why: 'Less than a quarter of the life is left, and no attempt has failed: the request waits, or the next certificate is held back.',
    remedy: 'The events of the identity say what it waits for.',
    commands: commandsOf(worst, count),
    runbook: 'certificate-not-renewed',
    view: 'identities',
    ...(count === 1 && { name: worst.name }),
  }
}

function refusedProblem(worst: PageIdentity, count: number): Problem {
  return {
    severity: 'warning',
    what: `Clients would refuse ${count === 1 ? `the certificate of ${visible(worst.name)}` : counted(count, 'certificate')}`,
    why: visible(worst.warning ?? ''),
    remedy: 'Compare the roots that are served with the one that the CA signs with.',
    commands: ['livery doctor', 'livery trust status', `livery explain ${shellWord(worst.name)}`],
    runbook: 'certificate-not-renewed',
    view: 'identities',
    ...(count === 1 && { name: worst.name }),
  }
}

/** `The certificate of spiffe://…`, `3 certificates`. */
function subject({ name }: PageIdentity, count: number, noun: string): string {
  return count === 1 ? `The ${noun} of ${visible(name)}` : counted(count, noun)
}

function failureText({ failure }: PageIdentity): string {
  return failure ? visible(failure.text) : ''
}

/** Doctor asks the CA for the first identity: of one that is refused alone it knows nothing. */
function commandsOfRefusal(worst: PageIdentity, count: number, { code, issuedToOthers }: Refusal): readonly string[] {
  return [...(isRefusedAlone(code, issuedToOthers) ? [] : ['livery doctor']), ...commandsOf(worst, count)]
}

function commandsOf({ name }: PageIdentity, count: number): readonly string[] {
  return count === 1
    ? [`livery explain ${shellWord(name)}`]
    : ['livery certs --failing', `livery explain ${shellWord(name)}`]
}
