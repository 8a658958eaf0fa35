/** The agent's own problems, and one that only a browser sees: that their clocks differ. */
import { CLOCK_REMEDY } from '../../../agent/src/diagnosis/ca-clock.ts'
import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageProblem } from '../../../agent/src/page/state.ts'

/** Tolerance for the browser's own clock, which is rarely better. */
const BROWSER_DIFFERS_MS = 30_000

/** `clockAheadMs`: how far the agent's clock is ahead of the browser's. */
export function withClock(problems: readonly PageProblem[], clockAheadMs: number): readonly PageProblem[] {
  if (Math.abs(clockAheadMs) <= BROWSER_DIFFERS_MS) return problems
  const differs: PageProblem = {
    code: 'browser-clock',
    severity: 'warning',
    what: `The clock of this node is ${formatAge(Math.abs(clockAheadMs))} ${clockAheadMs > 0 ? 'ahead of' : 'behind'} this browser's`,
    reason: 'One of the two is wrong. A node whose clock is wrong refuses the certificates of its peers.',
    remedy: `${CLOCK_REMEDY}. The agent notices within ten seconds.`,
    commands: ['livery doctor', 'date --utc'],
    runbook: 'clock-skew',
    count: 0,
    view: 'ca',
  }
  return [...problems, differs]
}
