/** The input and the result of each row of the comparison. */
import type { Comparison } from './comparison.ts'
import type { Program, Programs } from './programs.ts'
import type { WorkingCopy } from './working-copy.ts'

export interface Bench {
  readonly programs: Programs
  readonly rounds: number
  /** Another working copy of Livery, ready to run, for the rows that can measure it too. */
  readonly against?: WorkingCopy
  /** Writes a line of progress on stderr. */
  readonly say: (message: string) => void
}

/** `T`: the type of the measurement. */
export interface Row<T = Comparison> {
  /** The name for `--only`. */
  readonly name: string
  /** Programs without which the row is skipped. */
  readonly needs: readonly Program[]
  /** Programs of the peers; our own side is measured without them too. */
  readonly against?: readonly Program[]
  /** Returns why this machine cannot measure the row, or `undefined`. */
  readonly obstacle?: () => Promise<string | undefined>
  measure(bench: Bench): Promise<readonly T[]>
}

/** Returns `side` if the program that it measures is there, else nothing. */
export function ifPresent<T>({ programs }: Bench, program: Program, side: () => T): T[] {
  return 'absent' in programs[program] ? [] : [side()]
}
