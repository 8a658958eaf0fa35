/** Runs callers.py: processes that connect to a socket and pretend to be in a pod. */
import { execFile, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const CALLERS = fileURLToPath(new URL('callers.py', import.meta.url))

/** Why they cannot run here, or `false`. */
export const noCallers: string | false =
  spawnSync('python3', ['--version']).status === 0 ? false : 'needs python3, for the callers'

interface Attempts {
  readonly attempts: number
  /** That got an answer. */
  readonly served: number
  /** For which the pid was that of a pod. */
  readonly reused?: number
}

type Words = readonly [command: string, ...args: readonly (string | number)[]]

/** Resolves with the answer of a command. */
export async function runCallers(...words: Words): Promise<unknown> {
  return JSON.parse(await run(words))
}

/** Runs commands that make attempts in one process, one after another. */
export async function runAttempts(...commands: readonly Words[]): Promise<readonly Attempts[]> {
  return JSON.parse(await run(['several', ...commands.map(words => JSON.stringify(words.map(String)))]))
}

async function run(words: Words): Promise<string> {
  const { stdout } = await promisify(execFile)('python3', [CALLERS, ...words.map(String)])
  return stdout
}
