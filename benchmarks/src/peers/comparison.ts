/** One line of the table: the figures of Livery and of a peer, the target, and whether it is met. */
import { median, pairRatio } from './rounds.ts'

/** `ratio` is ours divided by the peer's; `exactly` holds for every sample, the others for the median. */
export interface Target {
  readonly of: 'ours' | 'ratio'
  readonly is: 'at least' | 'at most' | 'exactly'
  readonly value: number
}

export interface Comparison {
  /** The name of its row for `--only`. */
  readonly row: string
  readonly work: string
  readonly unit: string
  readonly ours: readonly number[]
  /** Absent: none was measured. */
  readonly peer?: { readonly name: string; readonly samples: readonly number[] }
  /** Absent: the figure is only reported. */
  readonly target?: Target
}

/** A row or a peer that was not measured: something was missing (`row`, `peer`), or went wrong. */
export interface Skipped {
  readonly row: string
  readonly what: 'row' | 'peer' | 'failure'
  readonly reason: string
}

/** `undefined` where no peer was measured. */
export function ratioOf({ ours, peer }: Comparison): number | undefined {
  return peer && pairRatio(ours, peer.samples)
}

/** `undefined` without a target, or if its peer was not measured. */
export function isMet(comparison: Comparison): boolean | undefined {
  const { ours, target } = comparison
  if (!target) return undefined
  if (target.is === 'exactly') return ours.every(sample => sample === target.value)
  const value = target.of === 'ours' ? median(ours) : ratioOf(comparison)
  if (value === undefined) return undefined
  return target.is === 'at least' ? value >= target.value : value <= target.value
}
