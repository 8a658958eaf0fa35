/** All that is wrong with the agent now, the worst first: pure, from its state. */
import type { PageIdentity, PageOverview, PageRoots, PageStreams } from '../../src/page/state.ts'
import { agentProblems } from './agent-problems.ts'
import { identityProblems } from './identity-problems.ts'
import type { Problem } from './problem.ts'
import { trustProblems } from './trust-problems.ts'

export interface Facts {
  readonly identities: ReadonlyMap<string, PageIdentity>
  readonly overview: PageOverview
  readonly streams: PageStreams | undefined
  readonly roots: PageRoots | undefined
  /** Since when the store has changes that are not on disk; `undefined` while all are. */
  readonly storeBehindSince: number | undefined
  /** The agent's clock. */
  readonly now: number
  /** How far that is ahead of the browser's, in milliseconds. */
  readonly clockAheadMs: number
}

export function problemsOf(facts: Facts): readonly Problem[] {
  const problems = [...identityProblems(facts), ...agentProblems(facts), ...trustProblems(facts)]
  return [...problems.filter(isCritical), ...problems.filter(problem => !isCritical(problem))]
}

function isCritical({ severity }: Problem): boolean {
  return severity === 'critical'
}
