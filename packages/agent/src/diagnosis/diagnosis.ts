/** The one judgement of the agent's state. Readiness, doctor, page, commands, log and metrics print it. */
import type { IdentityEntry } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import { resourceProblems, servingProblems } from './agent-problems.ts'
import { clockDifference } from './ca-clock.ts'
import type { AgentSource, Rejection } from './facts.ts'
import { IdentityProblems } from './identity-problems.ts'
import type { Moment } from './identity-verdict.ts'
import { NewestCertificate } from './newest-certificate.ts'
import { inOrder, type Problem } from './problem.ts'
import { trustProblems } from './trust-problems.ts'

export function momentOf({ clock, schedule }: Pick<AgentSource, 'clock' | 'schedule'>): Moment {
  return { now: clock.now(), downSince: schedule().downSince }
}

/** Identities are added one by one, each in its state at that moment. */
export class Diagnosis {
  readonly #source: AgentSource
  readonly #identities: IdentityProblems
  readonly #newest = new NewestCertificate()

  constructor(source: AgentSource) {
    this.#source = source
    this.#identities = new IdentityProblems(momentOf(source))
  }

  look(entry: IdentityEntry): void {
    this.#identities.look(entry)
    this.#newest.look(entry)
  }

  /** Problems that affect readiness: cheap enough for each probe. */
  serving(): readonly Problem[] {
    return inOrder([...servingProblems(this.#source), ...this.#identities.problems()])
  }

  /** All problems. */
  all(rejections: readonly Rejection[]): readonly Problem[] {
    const { requestedTtlMs } = this.#source
    const newest = this.#newest.found
    const clock =
      newest && requestedTtlMs !== undefined
        ? clockDifference(newest, { at: newest.at, ttlMs: requestedTtlMs })
        : undefined
    return inOrder([
      ...this.serving(),
      ...resourceProblems(this.#source, clock),
      ...trustProblems(this.#source, rejections),
    ])
  }
}

/** Looks at every identity once. */
export async function diagnose(source: AgentSource & IdentityList, turns: Turns): Promise<Diagnosis> {
  const diagnosis = new Diagnosis(source)
  await lookAtAll(source, turns, entry => diagnosis.look(entry))
  return diagnosis
}

const IDENTITIES_IN_A_STEP = 64

/** Looks at every identity, each in its state at that moment; `turns` yields to other work in between. */
export async function lookAtAll(list: IdentityList, turns: Turns, look: (entry: IdentityEntry) => void): Promise<void> {
  let looked = 0
  for (const identity of [...list.identities()]) {
    const entry = list.entry(identity)
    if (entry) look(entry)
    if (++looked % IDENTITIES_IN_A_STEP === 0) await turns.next()
  }
}

interface Turns {
  next(): Promise<void>
}

export interface IdentityList {
  identities(): Iterable<SpiffeId>
  entry(identity: SpiffeId): IdentityEntry | undefined
}
