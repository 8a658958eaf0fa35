/** The input of every command: its view of the outside, and the options that all commands have. */
import type { Environment } from '../config/environment.ts'

/** The parts of the outside that a command is allowed to touch. */
export interface Terminal {
  readonly environment: Environment
  readonly workingDirectory: string
  /** Whether standard error is a terminal. */
  readonly terminal: boolean
  /** The width of the terminal at standard output; absent if that is another file. */
  readonly columns?: number | undefined
  /** Clears the terminal at standard output; absent if that is another file. */
  readonly clear?: () => void
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
