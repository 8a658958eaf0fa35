/** All that is wrong with the agent now, the worst first: pure, from its state. */
import { agentProblems } from './agent-problems.ts'
import type { Facts } from './facts.ts'
import { identityProblems } from './identity-problems.ts'
import type { Problem } from './problem.ts'
import { trustProblems } from './trust-problems.ts'

export function problemsOf(facts: Facts): readonly Problem[] {
  const problems = [...identityProblems(facts), ...agentProblems(facts), ...trustProblems(facts)]
  return [...problems.filter(isCritical), ...problems.filter(problem => !isCritical(problem))]
}

function isCritical({ severity }: Problem): boolean {
  return severity === 'critical'
}
