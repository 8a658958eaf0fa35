/** A run of `bench:peers`, and the merge of rows that were measured again: both sides of a row always come from one run. */
import { isDeepStrictEqual } from 'node:util'
import type { Machine } from '../report.ts'
import type { Comparison, Skipped } from './comparison.ts'
import type { Growth } from './growth.ts'

export interface Run {
  readonly machine: Machine
  readonly rounds: number
  readonly comparisons: readonly Comparison[]
  readonly skipped: readonly Skipped[]
  readonly growths: readonly Growth[]
}

/** Why rows of a run on `machine` with `rounds` cannot replace rows of `last`, or `undefined` if they can. */
export function mergeProblem(
  last: Pick<Run, 'machine' | 'rounds'>,
  machine: Machine,
  rounds: number,
): string | undefined {
  if (!isDeepStrictEqual({ ...last.machine }, { ...machine }))
    return `the last run was on another day or machine (${last.machine.date}, ${last.machine.cpu}, Node ${last.machine.node})`
  if (last.rounds !== rounds) return `the last run had ${last.rounds} rounds, and this one has ${rounds}`
  return undefined
}

/** `last` with its rows replaced by those that were measured again, in the order of `names`. */
export function mergeRuns(last: Run, again: Run, measured: readonly string[], names: readonly string[]): Run {
  const keep = ({ row }: { readonly row: string }) => !measured.includes(row)
  const inOrder = <T extends { readonly row: string }>(rows: readonly T[]) =>
    rows.toSorted((a, b) => names.indexOf(a.row) - names.indexOf(b.row))
  return {
    machine: again.machine,
    rounds: again.rounds,
    comparisons: inOrder([...last.comparisons.filter(keep), ...again.comparisons]),
    skipped: inOrder([...last.skipped.filter(keep), ...again.skipped]),
    growths: again.growths.length > 0 ? again.growths : last.growths,
  }
}
