/** Problems of the agent as a whole: sockets, pods, endpoints, the CA's capacity and clock, the store, memory. */
import { CLOCK_REMEDY, type ClockDifference, clockText } from './ca-clock.ts'
import type { AgentSource, SocketStatus } from './facts.ts'
import type { Problem } from './problem.ts'
import { counted, shellWord } from './problem-text.ts'

/** The cheap checks, which every readiness probe makes. */
export function servingProblems(source: AgentSource): readonly Problem[] {
  const phase = source.phase()
  if (phase !== 'serving') return [phaseProblem(phase)]
  const unbound = source.sockets().filter(({ state }) => state !== 'listening')
  return [
    ...unbound.map(socketProblem),
    ...podsProblem(source),
    ...(source.endpointProblems?.() ?? []).map(endpointProblem),
  ]
}

/** The other checks. `clock`: the CA's clock difference, where it is known. */
export function resourceProblems(source: AgentSource, clock: ClockDifference | undefined): readonly Problem[] {
  return [
    ...busyProblem(source),
    ...storeProblem(source),
    ...(clock ? [clockProblem(clock)] : []),
    ...memoryProblem(source),
  ]
}

function of<Severity extends Problem['severity']>(code: string, severity: Severity) {
  return { code, severity, affected: [] } as const
}

function phaseProblem(phase: 'starting' | 'draining'): Problem {
  return {
    ...of(phase, 'pending'),
    what: phase === 'starting' ? 'The sockets are not bound yet' : 'The agent is shutting down',
    reason: phase === 'starting' ? 'it is starting' : 'it was told to',
    remedy: 'Wait.',
    commands: [],
    unready: 'sockets',
  }
}

function socketProblem({ path, state, reason }: SocketStatus): Problem {
  return {
    ...of('socket', 'critical'),
    what: `The socket ${path} is not served (${state})`,
    reason: reason ?? (state === 'superseded' ? 'another process took its path' : 'another process listens on it'),
    remedy: 'Stop the other process, or give one of the two another path.',
    commands: ['livery doctor'],
    runbook: 'socket-not-served',
    unready: 'sockets',
  }
}

function podsProblem(source: AgentSource): Problem[] {
  const pods = source.pods?.()
  if (!pods || (pods.known && pods.problem === undefined)) return []
  // A pod is served once it is known, and stays so while the API server is away.
  return [
    {
      ...of('pods', pods.known ? 'warning' : pods.problem === undefined ? 'pending' : 'critical'),
      what: pods.known ? 'Pods that come or go are not seen' : 'The pods of this node are not known',
      reason: pods.problem ?? 'their list is on the way',
      remedy: 'Look at the API server, and at what the agent is allowed there.',
      commands: ['livery doctor'],
      runbook: 'socket-not-served',
      ...(!pods.known && { unready: 'sockets' }),
    },
  ]
}

function endpointProblem(reason: string): Problem {
  return {
    ...of('endpoint', 'warning'),
    what: 'An endpoint for operators does not listen',
    reason,
    remedy: 'Stop the other process, or give the endpoint another address.',
    commands: ['livery doctor'],
  }
}

function busyProblem(source: AgentSource): Problem[] {
  if (source.schedule().pause?.reason !== 'rate-limited') return []
  return [
    {
      ...of('ca-busy', 'warning'),
      what: 'The CA has too many requests: renewals wait',
      reason: 'it refused one because it has no room',
      remedy: 'Raise its limit, or lower concurrency.',
      commands: ['livery certs --sort expiry'],
      runbook: 'certificate-not-renewed',
    },
  ]
}

/** A write takes less, unless it fails. */
const STORE_SLOW_MS = 5_000

function storeProblem(source: AgentSource): Problem[] {
  const { directory = '', unwritten = 0, failure, behindSince } = source.store() ?? {}
  if (behindSince === undefined || (failure === undefined && source.clock.now() - behindSince < STORE_SLOW_MS))
    return []
  return [
    {
      ...of('store', 'warning'),
      since: behindSince,
      what: `The store ${directory} cannot be written (${failure ?? 'the disk does not answer'}): ${counted(unwritten, 'change is', 'changes are')} only in memory`,
      reason:
        'The certificates that are served are not affected. A restart would lose these changes: the agent would ask the CA for their certificates again.',
      remedy: `${failure?.startsWith('ENOSPC') ? 'Make room.' : 'Look at the free space, the permissions and the owner of that directory.'} Do not restart the agent before.`,
      commands: ['livery doctor', `df -h ${shellWord(directory)}`],
      runbook: 'store-failing',
    },
  ]
}

function clockProblem(clock: ClockDifference): Problem {
  return {
    ...of('clock', 'warning'),
    what: clockText(clock).replace(/^t/, 'T'),
    reason: clock.isExact
      ? 'The end of the newest certificate, minus the lifetime that was asked for, is when the CA signed it.'
      : 'The beginning of the newest certificate shows it: a CA back-dates by five minutes at most.',
    remedy: `${CLOCK_REMEDY}. The agent notices within ten seconds.`,
    commands: ['livery doctor', 'date --utc'],
    runbook: 'clock-skew',
  }
}

/** The same threshold as the alert LiveryMemoryHigh. */
const MEMORY_USED = 0.9

function memoryProblem({ memory }: AgentSource): Problem[] {
  const { rssBytes, limitBytes } = memory()
  if (rssBytes < MEMORY_USED * limitBytes) return []
  return [
    {
      ...of('memory', 'warning'),
      what: 'Little memory is left',
      reason: `The agent holds ${Math.round((100 * rssBytes) / limitBytes)} % of what it is allowed.`,
      remedy: 'Raise the limit, or find the callers that hold much.',
      commands: ['livery streams'],
      runbook: 'memory',
    },
  ]
}
