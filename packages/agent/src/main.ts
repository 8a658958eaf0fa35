/** The program `livery`: gives the command line to `cli.ts` and ends the process. */
import { runCommandLine } from './cli.ts'

// A reader such as `head` that has read enough is no fault of ours.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

const exitCode = await runCommandLine(process.argv.slice(2), {
  environment: process.env,
  workingDirectory: process.cwd(),
  terminal: process.stderr.isTTY === true,
  out: text => void process.stdout.write(text),
  err: text => void process.stderr.write(text),
})
// Standard output to a pipe is written in the background: the exit waits for it.
process.stdout.write('', () => process.exit(exitCode))
