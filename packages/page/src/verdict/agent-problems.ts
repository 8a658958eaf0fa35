/** What is wrong with the agent as a whole: sockets, the CA, its clock, its memory, what it waits for. */

import { CLOCK_REMEDY, clockText } from '../../../agent/src/observe/ca-clock.ts'
import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageCA, PageOverview, PageSocket } from '../../../agent/src/page/state.ts'
import { isUnreachable } from '../parts/remedies.ts'
import { counted, shellWord, visible } from '../parts/text.ts'
import type { Facts } from './facts.ts'
import type { Problem } from './problem.ts'

export function agentProblems(facts: Facts): Problem[] {
  const { overview } = facts
  const found = [
    ...overview.sockets.filter(({ state }) => state === 'waiting' || state === 'superseded').map(socketProblem),
    ...caProblem(facts),
    ...podsProblem(overview),
    ...storeProblem(facts),
    ...clockProblems(facts),
    ...memoryProblem(overview),
  ]
  return found.length === 0 ? readinessProblem(overview) : found
}

function socketProblem({ path, state, reason }: PageSocket): Problem {
  return {
    severity: 'critical',
    what: `The socket ${visible(path)} is not served`,
    why: visible(
      reason ?? (state === 'superseded' ? 'Another process took its path.' : 'Another process listens on it.'),
    ),
    remedy: 'Stop the other process, or give one of the two another path.',
    commands: ['livery doctor'],
    runbook: 'socket-not-served',
    view: 'sockets',
  }
}

function caProblem({ overview, now }: Facts): Problem[] {
  const { ca, soonestExpiry, failing } = overview
  if (ca.pause?.reason === 'ca-down') {
    const waiting = Object.entries(failing).reduce((sum, [code, count]) => sum + (isUnreachable(code) ? count : 0), 0)
    const end =
      soonestExpiry === undefined
        ? 'no certificate is held'
        : `the first certificate ends in ${formatAge(soonestExpiry - now)}`
    return [
      {
        severity: isSoon(soonestExpiry, now) ? 'critical' : 'warning',
        what: `The CA does not answer: ${end}`,
        why: `${counted(waiting, 'identity waits', 'identities wait')} for it. ${lastErrorText(ca)}`,
        remedy: 'Look at the CA, and at the way to it. Certificates in use stay in use until they end.',
        commands: ['livery ca test', 'livery doctor'],
        runbook: 'ca-down',
        view: 'ca',
      },
    ]
  }
  if (ca.pause?.reason !== 'rate-limited') return []
  return [
    {
      severity: 'warning',
      what: 'The CA has too many requests: renewals wait',
      why: lastErrorText(ca),
      remedy: 'Raise its limit, or lower concurrency.',
      commands: ['livery certs --sort expiry'],
      runbook: 'certificate-not-renewed',
      view: 'ca',
    },
  ]
}

const SOON_MS = 15 * 60_000

function isSoon(expiry: number | undefined, now: number): boolean {
  return expiry === undefined || expiry - now < SOON_MS
}

function lastErrorText({ lastError }: PageCA): string {
  return lastError ? `${lastError.code}: ${visible(lastError.text)}` : ''
}

function podsProblem({ pods }: PageOverview): Problem[] {
  if (pods?.problem === undefined) return []
  return [
    {
      severity: pods.known ? 'warning' : 'critical',
      what: pods.known ? 'Pods that come and go are not seen' : 'The pods of this node are not known',
      why: visible(pods.problem),
      remedy: 'Look at the API server, and at what the agent is allowed there.',
      commands: ['livery doctor'],
      runbook: 'socket-not-served',
      view: 'sockets',
    },
  ]
}

/** A browser's own clock is rarely better than that. */
const BROWSER_DIFFERS_MS = 30_000

function clockProblems({ overview, clockAheadMs }: Facts): Problem[] {
  const { clock } = overview.ca
  const problems: Problem[] = []
  if (clock)
    problems.push(
      clockProblem(
        clockText(clock).replace(/^t/, 'T'),
        clock.isExact
          ? 'The end of the newest certificate, minus the lifetime that was asked for, is when the CA signed it.'
          : 'The beginning of the newest certificate shows it: a CA back-dates by five minutes at most.',
      ),
    )
  if (Math.abs(clockAheadMs) > BROWSER_DIFFERS_MS)
    problems.push(
      clockProblem(
        `The clock of this node is ${formatAge(Math.abs(clockAheadMs))} ${clockAheadMs > 0 ? 'ahead of' : 'behind'} this browser's`,
        'One of the two is wrong. A node whose clock is wrong refuses the certificates of its peers.',
      ),
    )
  return problems
}

function clockProblem(what: string, why: string): Problem {
  return {
    severity: 'warning',
    what,
    why,
    remedy: `${CLOCK_REMEDY}. The agent notices within ten seconds.`,
    commands: ['livery doctor', 'date --utc'],
    runbook: 'clock-skew',
    view: 'ca',
  }
}

/** A write takes less, unless it fails. */
const STORE_SLOW_MS = 5_000

function storeProblem({ overview, storeBehindSince, now }: Facts): Problem[] {
  const { store } = overview
  if (!store || storeBehindSince === undefined) return []
  if (store.failure === undefined && now - storeBehindSince < STORE_SLOW_MS) return []
  const reason = visible(store.failure ?? 'the disk does not answer')
  return [
    {
      severity: 'warning',
      what: `The store ${visible(store.directory)} cannot be written (${reason}): ${counted(store.unwritten, 'change is', 'changes are')} only in memory`,
      why: 'The certificates that are served are not affected. A restart would lose these changes: the agent would ask the CA for their certificates again.',
      remedy: `${store.failure?.startsWith('ENOSPC') ? 'Make room.' : 'Look at the free space, the permissions and the owner of that directory.'} Do not restart the agent before.`,
      commands: ['livery doctor', `df -h ${shellWord(store.directory)}`],
      runbook: 'store-failing',
      view: 'process',
    },
  ]
}

/** As the alert LiveryMemoryHigh has it. */
const MEMORY_USED = 0.9

function memoryProblem({ process }: PageOverview): Problem[] {
  if (process.rssBytes < MEMORY_USED * process.memoryLimitBytes) return []
  return [
    {
      severity: 'warning',
      what: 'Little memory is left',
      why: `The agent holds ${Math.round((100 * process.rssBytes) / process.memoryLimitBytes)} % of what it is allowed.`,
      remedy: 'Raise the limit, or find the callers that hold much.',
      commands: ['livery streams'],
      runbook: 'memory',
      view: 'process',
    },
  ]
}

/** What is not said elsewhere. */
function readinessProblem({ ready, phase, reasons }: PageOverview): Problem[] {
  if (ready || phase !== 'serving') return []
  return [
    {
      severity: 'warning',
      what: 'The agent is not ready',
      why: reasons.slice(0, 3).map(visible).join('; '),
      remedy: 'livery doctor looks for the cause.',
      commands: ['livery doctor'],
      runbook: 'socket-not-served',
      view: 'identities',
    },
  ]
}
