/** Something that is wrong, or about to be: every view of the agent prints it, and none judges again. */
import type { RunbookPage } from './remedies.ts'

/**
 * The question of a readiness probe. `sockets`: are they bound. `default`: also, is there something valid to serve.
 * `strict`: also, does every identity have a valid certificate, and can it be renewed.
 */
export const READINESS_MODES = ['sockets', 'default', 'strict'] as const
export type ReadinessMode = (typeof READINESS_MODES)[number]

/** `critical`: something is broken, or breaks soon. `pending`: it is on its way, and nobody has to act. */
export type Severity = 'critical' | 'warning' | 'pending'
const SEVERITIES: readonly Severity[] = ['critical', 'warning', 'pending']

export interface Problem {
  /** A code for programs; an `IdentityCause` if identities are affected. */
  readonly code: string
  readonly severity: Severity
  /** When its cause began, milliseconds since the epoch, where that is known. */
  readonly since?: number
  readonly what: string
  /** When the first affected certificate ends. */
  readonly ends?: number
  /** Why: the text of the newest failure, if there is one. */
  readonly reason: string
  readonly remedy: string
  /** Commands to run on the node. */
  readonly commands: readonly string[]
  readonly runbook?: RunbookPage
  /** The least strict mode that answers `not ready` meanwhile; absent if none does. */
  readonly unready?: ReadinessMode
  /** The affected identities, grouped by effect; empty for a problem of the agent. */
  readonly affected: readonly Affected[]
}

/**
 * `expired` and `missing`: no valid certificate. `not-renewed`, `late`: it still has one. `revoked`, `refused`: peers or
 * clients refuse it.
 */
export type Effect = 'expired' | 'missing' | 'revoked' | 'not-renewed' | 'late' | 'refused'

/** Identities of one problem with the same effect. */
export interface Affected {
  readonly effect: Effect
  readonly unready?: ReadinessMode
  readonly count: number
  /** At most a hundred, with the least life left. */
  readonly listed: readonly AffectedIdentity[]
}

export interface AffectedIdentity {
  readonly name: string
  readonly reason: string
  /** As in `IdentityEntry`: milliseconds since the epoch. */
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

/** Whether it makes the agent `not ready` in this mode. */
export function isUnready({ unready }: Pick<Problem, 'unready'>, mode: ReadinessMode): boolean {
  return unready !== undefined && READINESS_MODES.indexOf(unready) <= READINESS_MODES.indexOf(mode)
}
