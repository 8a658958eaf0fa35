/** One problem as the page shows it. */
import { countAffected, type Problem } from '../diagnosis/problem.ts'
import type { PageProblem, PageView } from './state.ts'

/** The text of a CA's failure can be long. */
const REASON_CHARS = 2_000

/** `undefined` for a pending problem. */
export function problemRow({ affected, unready: _, severity, ...problem }: Problem): PageProblem[] {
  if (severity === 'pending') return []
  const count = countAffected({ affected })
  const name = count === 1 ? affected[0]?.listed[0]?.name : undefined
  const reason = problem.reason.slice(0, REASON_CHARS)
  return [
    {
      ...problem,
      severity,
      reason,
      count,
      ...(name !== undefined && { name }),
      view: VIEWS[problem.code] ?? 'identities',
    },
  ]
}

/** The view with more about the problem. Default: the identities. */
const VIEWS: Readonly<Record<string, PageView>> = {
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
