/** The cases that need no switches, run at a live CA; their outcome is data, for a report. */
import { inspect } from 'node:util'
import {
  type CACapabilities,
  type CAClient,
  CAError,
  type KeyType,
  type SpiffeId,
  SystemClock,
} from '@livery/core/plugin'
import { LIVE_CASES } from './cases/every-case.ts'
import type { ConformanceGroup, LiveCase, Subject } from './kit/conformance-case.ts'
import { close } from './kit/in-time.ts'
import { firstOf } from './kit/kit-request.ts'

export interface ConformanceResult {
  readonly group: ConformanceGroup
  /** A sentence that states what holds, or should. */
  readonly name: string
  readonly outcome: 'passed' | 'failed' | 'skipped'
  /** Why it failed or was skipped; empty if it passed. */
  readonly detail: string
  /** How long it took. */
  readonly ms: number
}

export interface ConformanceReport {
  readonly results: readonly ConformanceResult[]
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

export interface RunAgainstOptions {
  readonly capabilities: CACapabilities
  /** Identities that the CA issues to this caller; at least one. */
  readonly identities: readonly SpiffeId[]
  /** Default: the first of `capabilities.keyTypes`. */
  readonly keyType?: KeyType
  /** The lifetime that most requests ask for; default 3,600. */
  readonly ttlSeconds?: number
  /** How many requests are made at once; default 64. Use fewer for a CA with a quota. */
  readonly parallel?: number
  /** Roots (PEM, one certificate an element) to verify against, where neither certificates nor the CA bring them. */
  readonly roots?: readonly string[]
  /** The time after which a call counts as hanging, and its case fails, milliseconds; default 30,000. */
  readonly patienceMs?: number
  /** Called after each case. */
  readonly report?: (result: ConformanceResult) => void
  /** Once aborted, the cases that are left are skipped. */
  readonly signal?: AbortSignal
}

/**
 * Runs the groups contract, ttl, cancellation, parallel, roots and close with `client`, and closes it.
 * About 100 certificates are issued; if the CA refuses the first one, no other case runs. Never rejects because a case failed; throws a `TypeError` without an identity.
 */
export async function runAgainst(client: CAClient, options: RunAgainstOptions): Promise<ConformanceReport> {
  using clock = new SystemClock()
  firstOf(options.identities)
  const subject: Subject = {
    client,
    clock,
    capabilities: options.capabilities,
    identities: options.identities,
    keyType: options.keyType ?? firstOf(options.capabilities.keyTypes),
    ttlSeconds: options.ttlSeconds ?? 3_600,
    parallel: options.parallel ?? 64,
    patienceMs: options.patienceMs ?? 30_000,
    roots: () => options.roots ?? [],
  }
  const results: ConformanceResult[] = []
  for (const each of LIVE_CASES) {
    const { result, error } = await runOne(each, subject, options.signal)
    const issuesNothing = results.length === 0 && error instanceof CAError
    results.push(issuesNothing ? { ...result, detail: `${result.detail}\n${NOT_RUN}` } : result)
    options.report?.(result)
    if (issuesNothing) break
  }
  // The last case closes the client unless it was skipped, and judges whether that works.
  await close(client, subject.patienceMs).catch(() => {})
  const count = (outcome: ConformanceResult['outcome']) => results.filter(each => each.outcome === outcome).length
  return { results, passed: count('passed'), failed: count('failed'), skipped: count('skipped') }
}

const NOT_RUN = 'The other cases were not run: they need a CA that issues certificates.'

async function runOne(
  { group, name, skip, run }: LiveCase,
  subject: Subject,
  signal: AbortSignal | undefined,
): Promise<{ readonly result: ConformanceResult; readonly error?: unknown }> {
  const reason = skip?.(subject.capabilities) ?? (signal?.aborted ? 'the run was aborted' : undefined)
  if (reason !== undefined) return { result: { group, name, outcome: 'skipped', detail: reason, ms: 0 } }
  const { clock } = subject
  const start = clock.now()
  const result = (outcome: ConformanceResult['outcome'], detail: string): ConformanceResult => ({
    group,
    name,
    outcome,
    detail,
    ms: clock.now() - start,
  })
  try {
    await run(subject)
    return { result: result('passed', '') }
  } catch (error) {
    return { result: result('failed', error instanceof Error ? error.message : inspect(error, { depth: 0 })), error }
  }
}
