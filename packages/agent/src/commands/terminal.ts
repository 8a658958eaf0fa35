/** What every command gets: the outside as far as it may touch it, and the options that all have. */
import type { Environment } from '../config/environment.ts'

/** What a command may touch of the outside. */
export interface Terminal {
  readonly environment: Environment
  readonly workingDirectory: string
  /** Whether standard error is a terminal. */
  readonly terminal: boolean
  /** The width of the terminal that standard output is; absent if it is another file. */
  readonly columns?: number | undefined
  /** Results go to standard output. */
  out(text: string): void
  /** Everything else goes to standard error. */
  err(text: string): void
}

/** The options that every command has. */
export interface GlobalOptions {
  readonly config?: string
  readonly admin?: string
  readonly json?: boolean
}
