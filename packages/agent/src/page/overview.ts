/** The overview of the page: what is about to break. One look at every identity, with turns for other work in between. */
import type { IdentityEntry } from '@livery/core'
import { clockDifference } from '../observe/ca-clock.ts'
import { IdentitySummary } from '../observe/identity-summary.ts'
import type { LoopTurns } from '../observe/loop-turns.ts'
import { Lowest } from '../observe/lowest.ts'
import { memoryLimit } from '../observe/process-metrics.ts'
import { type Readiness, ReadinessReview } from '../observe/readiness.ts'
import { formatLogLevels } from '../schema/log-level.ts'
import type { PageSource } from './page-source.ts'
import type { PageCA, PageCaller, PageOverview, PageProcess, PageSocket, PageStore } from './state.ts'

const IDENTITIES_IN_A_STEP = 64
const MAX_REASONS = 20
/** The text of a CA's failure can be long. */
const REASON_CHARS = 300
const MAX_CALLERS = 100
const MIB = 1024 * 1024

/** `onEntry` is called with each identity, as it is when its turn comes. */
export async function composeOverview(
  source: PageSource,
  turns: LoopTurns,
  onEntry: (entry: IdentityEntry) => void,
): Promise<PageOverview> {
  const { phase, byDefault, strict, summary, newest } = await lookAtIdentities(source, turns, onEntry)
  const callers = await busiestCallers(source, turns)
  const pods = source.pods?.()
  const store = source.store()
  const { earliestEnd } = summary
  await turns.next()
  return {
    phase,
    ...verdict(byDefault, strict),
    counts: countsOf(summary),
    failing: Object.fromEntries([...summary.failing].filter(([, count]) => count > 0)),
    ...(earliestEnd !== undefined && { soonestExpiry: earliestEnd }),
    sockets: socketRows(source),
    ...callers,
    refusedConnections: await source.refusedConnections(),
    ...(pods && { pods: { known: pods.known, ...(pods.problem !== undefined && { problem: pods.problem }) } }),
    ca: caRow(source, summary, newest),
    keyGenerator: source.keyGenerator.name,
    plannedPerMinute: source.plannedPerMinute(),
    process: processRow(),
    ...(store && { store: storeRow(store) }),
    logLevel: formatLogLevels(source.log.levels()),
  }
}

async function lookAtIdentities(source: PageSource, turns: LoopTurns, onEntry: (entry: IdentityEntry) => void) {
  const now = source.clock.now()
  const phase = source.phase()
  const endpointProblems = source.endpointProblems?.() ?? []
  const facts = { phase, sockets: source.sockets(), pods: source.pods?.(), endpointProblems, now }
  const byDefault = new ReadinessReview({ ...facts, mode: 'default' })
  const strict = new ReadinessReview({ ...facts, mode: 'strict' })
  const summary = new IdentitySummary(now)
  const newest = new NewestCalls()
  let looked = 0
  for (const identity of [...source.identities()]) {
    const entry = source.entry(identity)
    if (entry) for (const look of [byDefault, strict, newest]) look.look(entry)
    if (entry) summary.add(entry)
    if (entry) onEntry(entry)
    if (++looked % IDENTITIES_IN_A_STEP === 0) await turns.next()
  }
  return { phase, byDefault: byDefault.result(), strict: strict.result(), summary, newest }
}

/** The newest answers of the CA, of the identities that are held. */
class NewestCalls {
  issuedAt: number | undefined
  #failed: IdentityEntry | undefined

  look(entry: IdentityEntry): void {
    const { lastSuccessAt, lastFailure } = entry
    if (lastSuccessAt !== undefined && lastSuccessAt > (this.issuedAt ?? Number.NEGATIVE_INFINITY))
      this.issuedAt = lastSuccessAt
    if (lastFailure?.code === 'revoked') return
    if (lastFailure && lastFailure.at > (this.#failed?.lastFailure?.at ?? Number.NEGATIVE_INFINITY))
      this.#failed = entry
  }

  get error(): PageCA['lastError'] {
    if (!this.#failed?.lastFailure) return undefined
    const { code, message, at } = this.#failed.lastFailure
    return { code, text: message, at, identity: this.#failed.identity }
  }
}

/** What is ready strictly is ready, so that the strict reasons are all. */
function verdict(
  byDefault: Readiness,
  strict: Readiness,
): Pick<PageOverview, 'ready' | 'strictReady' | 'reasons' | 'moreReasons'> {
  const { waitingFor, failing } = strict
  const reasons = [...waitingFor.slice(0, MAX_REASONS), ...failing.lines].slice(0, MAX_REASONS)
  return {
    ready: byDefault.ready,
    strictReady: strict.ready,
    reasons: reasons.map(reason => (reason.length > REASON_CHARS ? `${reason.slice(0, REASON_CHARS)}…` : reason)),
    moreReasons: waitingFor.length + failing.count - reasons.length,
  }
}

function countsOf({ states }: IdentitySummary): PageOverview['counts'] {
  return {
    Initializing: states.get('initializing') ?? 0,
    Available: states.get('available') ?? 0,
    Renewing: states.get('renewing') ?? 0,
    Failing: states.get('failing') ?? 0,
    Expired: states.get('expired') ?? 0,
    Idle: states.get('idle') ?? 0,
  }
}

function socketRows(source: PageSource): readonly PageSocket[] {
  return (source.sds?.()?.sockets() ?? []).map(({ path, state, reason, connections, streams }) => ({
    path,
    state,
    ...(reason !== undefined && { reason }),
    connections,
    streams,
  }))
}

async function busiestCallers(source: PageSource, turns: LoopTurns) {
  const busiest = new Lowest<PageCaller>(MAX_CALLERS)
  for (const { key, connections, streams, names } of source.sds?.()?.callers() ?? []) {
    busiest.offer(-connections, { caller: key, connections, streams, names })
    await turns.next()
  }
  const callers = busiest.items()
  return { callers, moreCallers: busiest.count - callers.length }
}

function caRow(source: PageSource, summary: IdentitySummary, newest: NewestCalls): PageCA {
  const { queued, inFlight, window, pause } = source.schedule()
  const { issuedAt, error } = newest
  const { caClockAhead } = summary
  const clock = clockOf(summary, source.requestedTtlMs)
  return {
    plugin: source.caPlugin,
    inFlight,
    window,
    queued,
    ...(pause && { pause: { reason: pause.reason, ...(pause.until !== undefined && { until: pause.until }) } }),
    ...(issuedAt !== undefined && { lastIssuedAt: issuedAt }),
    ...(error && { lastError: error }),
    ...(caClockAhead !== undefined && { clockAheadMs: caClockAhead }),
    ...(clock && { clock }),
  }
}

function clockOf({ newest }: IdentitySummary, ttlMs: number | undefined): PageCA['clock'] {
  return newest && ttlMs !== undefined ? clockDifference(newest, { at: newest.at, ttlMs }) : undefined
}

function storeRow({ directory, unwritten, failure }: NonNullable<ReturnType<PageSource['store']>>): PageStore {
  return { directory, unwritten, ...(failure !== undefined && { failure }) }
}

/** In whole mebibytes: else each look would find another number. */
function processRow(): PageProcess {
  const { rss, heapUsed } = process.memoryUsage()
  return {
    rssBytes: wholeMiB(rss),
    heapUsedBytes: wholeMiB(heapUsed),
    memoryLimitBytes: memoryLimit(),
  }
}

function wholeMiB(bytes: number): number {
  return Math.round(bytes / MIB) * MIB
}
