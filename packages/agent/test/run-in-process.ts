/** A command line in the process of the test: without the half second that a process takes to start. */
import { runCommandLine } from '../src/cli.ts'

interface CommandResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Without an environment, and with output that is not a terminal. */
export async function runInProcess(args: readonly string[], workingDirectory: string): Promise<CommandResult> {
  let stdout = ''
  let stderr = ''
  const code = await runCommandLine(args, {
    environment: {},
    workingDirectory,
    terminal: false,
    out: text => {
      stdout += text
    },
    err: text => {
      stderr += text
    },
  })
  return { code, stdout, stderr }
}
