/** Exit codes of the program: 78 is EX_CONFIG of sysexits(3). */
import { ConfigError } from '../schema/config-error.ts'

export const EXIT = { ok: 0, failed: 1, usage: 2, config: 78 } as const

/** A mistake on the command line that the parser cannot see. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly code = 'usage'
}

/** The exit code for what ended a command. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return EXIT.usage
  const invalid =
    error instanceof ConfigError || (error instanceof Error && 'code' in error && error.code === 'invalid-config')
  return invalid ? EXIT.config : EXIT.failed
}
