/** The remaining part of a certificate's life. */
import { remainingLife } from '../../../agent/src/diagnosis/remaining-life.ts'
import type { PageIdentity } from '../../../agent/src/page/state.ts'

export interface Life {
  readonly notAfter: number
  /** The remaining part since it came, 1 to 0. */
  readonly left: number
  readonly leftMs: number
}

/** `undefined` while no certificate is served. */
export function lifeOf({ notBefore, notAfter, issuedAt }: PageIdentity, now: number): Life | undefined {
  if (notBefore === undefined || notAfter === undefined) return undefined
  const leftMs = Math.max(0, notAfter - now)
  const left = remainingLife({ notBefore, notAfter }, issuedAt, now)
  return { notAfter, left, leftMs }
}
