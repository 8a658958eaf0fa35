/** Whether the CA refuses everybody, or some alone: who else got a certificate meanwhile. */
import type { PageIdentity } from '../../../agent/src/page/state.ts'

/** Requests of the same start are answered in any order. */
const TOGETHER_MS = 10_000

/** How many identities that do not fail got a certificate since then. */
export function issuedMeanwhile(identities: ReadonlyMap<string, PageIdentity>, since: number): number {
  let count = 0
  for (const { failure, issuedAt = Number.NEGATIVE_INFINITY } of identities.values())
    if (!failure && issuedAt >= since - TOGETHER_MS) count++
  return count
}
