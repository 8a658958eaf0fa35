/** The input and the result of each row of the comparison. */
import type { Comparison } from './comparison.ts'
import type { Program, Programs } from './programs.ts'
import type { WorkingCopy } from './working-copy.ts'

export interface Bench {
  readonly programs: Programs
  readonly rounds: number
  /** Another working copy of Livery, set up, for the rows that can measure it too. */
  readonly against?: WorkingCopy
  /** Progress, a line on stderr. */
  readonly say: (message: string) => void
}

/** `T`: what it measures. */
export interface Row<T = Comparison> {
  /** For `--only`. */
  readonly name: string
  /** Without these programs the row is skipped. */
  readonly needs: readonly Program[]
  /** Without these our own side is measured all the same. */
  readonly against?: readonly Program[]
  /** Anything else that this machine may lack: why the row is skipped, or `undefined`. */
  readonly obstacle?: () => Promise<string | undefined>
  measure(bench: Bench): Promise<readonly T[]>
}

/** `side` where the program that it measures is there, else nothing. */
export function ifPresent<T>({ programs }: Bench, program: Program, side: () => T): T[] {
  return 'absent' in programs[program] ? [] : [side()]
}
