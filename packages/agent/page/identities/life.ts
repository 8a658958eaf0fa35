/** What is left of a certificate's life. */
import type { PageIdentity } from '../../src/page/state.ts'

export interface Life {
  readonly notBefore: number
  readonly notAfter: number
  /** Of the whole life, 0 to 1. */
  readonly left: number
  readonly leftMs: number
}

/** `undefined` while no certificate is served. */
export function lifeOf({ notBefore, notAfter }: PageIdentity, now: number): Life | undefined {
  if (notBefore === undefined || notAfter === undefined) return undefined
  const leftMs = Math.max(0, notAfter - now)
  const left = Math.min(1, leftMs / Math.max(1, notAfter - notBefore))
  return { notBefore, notAfter, left, leftMs }
}

/** Certificates are renewed with about half of their life left. */
const LATE = 0.25
const VERY_LATE = 0.1

/** As the alerts of the runbook have it. */
export type Lateness = 'in time' | 'late' | 'very late'

export function latenessOf({ left }: Life): Lateness {
  if (left < VERY_LATE) return 'very late'
  return left < LATE ? 'late' : 'in time'
}
