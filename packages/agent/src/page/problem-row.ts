/** One problem as the page shows it. */
import { countAffected, type Problem, type ProblemCode } from '../diagnosis/problem.ts'
import type { PageProblem, PageView } from './state.ts'

/** The text of a CA's failure can be long. */
const REASON_CHARS = 2_000

export function problemRow(problem: Problem): PageProblem {
  const { code, severity, since, what, ends, reason, remedy, commands, runbook, affected } = problem
  const count = countAffected(problem)
  const name = count === 1 ? affected[0]?.listed[0]?.name : undefined
  return {
    code,
    severity: severity === 'critical' ? severity : 'warning',
    ...(since !== undefined && { since }),
    what,
    ...(ends !== undefined && { ends }),
    reason: reason.slice(0, REASON_CHARS),
    remedy,
    commands,
    ...(runbook && { runbook }),
    count,
    ...(name !== undefined && { name }),
    view: VIEWS[code] ?? 'identities',
  }
}

/** Where the page shows more of it. Default: the identities. */
const VIEWS: Readonly<Partial<Record<ProblemCode, PageView>>> = {
  'ca-down': 'ca',
  'ca-busy': 'ca',
  clock: 'ca',
  socket: 'sockets',
  pods: 'sockets',
  endpoint: 'process',
  store: 'process',
  memory: 'process',
  'root-held': 'roots',
  'root-rejected': 'roots',
  'root-ends': 'roots',
  'secrets-rejected': 'streams',
}
