/** Something that is wrong, or about to be: what every window on the agent prints, and none judges again. */
import type { RunbookPage } from './remedies.ts'

/**
 * The question of a reader of readiness. `sockets`: are they bound. `default`: that, and is there something valid to serve.
 * `strict`: that, and does every identity have a valid certificate, and can it be renewed.
 */
export const READINESS_MODES = ['sockets', 'default', 'strict'] as const
export type ReadinessMode = (typeof READINESS_MODES)[number]

/** `critical`: something is broken, or breaks soon. `pending`: it is on its way, and nobody has to do anything. */
export type Severity = 'critical' | 'warning' | 'pending'
const SEVERITIES: readonly Severity[] = ['critical', 'warning', 'pending']

export interface Problem {
  /** For programs; an `IdentityCause` if identities are affected. */
  readonly code: string
  readonly severity: Severity
  /** When its cause began, milliseconds since the epoch, where that is known. */
  readonly since?: number
  readonly what: string
  /** When the first certificate ends that it concerns. */
  readonly ends?: number
  /** Why: the text of the newest failure, if there is one. */
  readonly reason: string
  readonly remedy: string
  /** To run on the node. */
  readonly commands: readonly string[]
  readonly runbook?: RunbookPage
  /** The least strict question that is answered with `not ready` while it lasts; absent if it is none. */
  readonly unready?: ReadinessMode
  /** The identities in trouble, by what is wrong with them; empty for a problem of the agent. */
  readonly affected: readonly Affected[]
}

/**
 * `expired` and `missing`: without a valid certificate. `not-renewed`, `late`: before it ends. `revoked`, `refused`: peers or
 * clients refuse it.
 */
export type Effect = 'expired' | 'missing' | 'revoked' | 'not-renewed' | 'late' | 'refused'

/** Identities of one problem that are in the same trouble. */
export interface Affected {
  readonly effect: Effect
  readonly unready?: ReadinessMode
  readonly count: number
  /** At most a hundred, those with the least life left. */
  readonly listed: readonly AffectedIdentity[]
}

export interface AffectedIdentity {
  readonly name: string
  readonly reason: string
  /** These as in `IdentityEntry`: milliseconds since the epoch. */
  readonly failingSince: number | undefined
  readonly renewAt: number | undefined
  readonly notAfter: number | undefined
}

/** The worst first, the newest cause first among equals. */
export function inOrder(problems: readonly Problem[]): readonly Problem[] {
  return problems.toSorted((a, b) => bySeverity(a.severity, b.severity) || (b.since ?? 0) - (a.since ?? 0))
}

/** The worst first. */
export function bySeverity(a: Severity, b: Severity): number {
  return SEVERITIES.indexOf(a) - SEVERITIES.indexOf(b)
}

export function countAffected({ affected }: Pick<Problem, 'affected'>): number {
  return affected.reduce((sum, { count }) => sum + count, 0)
}

/** Whether it makes the answer to this question `not ready`. */
export function isUnready({ unready }: Pick<Problem, 'unready'>, mode: ReadinessMode): boolean {
  return unready !== undefined && READINESS_MODES.indexOf(unready) <= READINESS_MODES.indexOf(mode)
}
