/** The program `livery`: gives the command line to `cli.ts` and ends the process. */
import { holdSignals } from './commands/early-signals.ts'
import { EXIT } from './commands/exit-code.ts'

/** Clears the screen, and begins at its top (ECMA-48). */
const CLEAR = '\x1b[H\x1b[2J'

// Signals are handled before the rest is loaded, which takes most of a start.
if (process.argv.includes('run')) holdSignals()

// Nowhere is left to report it.
process.stderr.on('error', () => {})
// The last write reports it.
process.stdout.on('error', () => {})

// The exit code if the event loop runs empty before a command ends.
process.exitCode = EXIT.failed
const running = import('./cli.ts').then(({ runCommandLine }) =>
  runCommandLine(process.argv.slice(2), {
    environment: process.env,
    workingDirectory: process.cwd(),
    terminal: process.stderr.isTTY === true,
    ...(process.stdout.isTTY && { columns: process.stdout.columns, clear: () => process.stdout.write(CLEAR) }),
    out: text => void process.stdout.write(text),
    err: text => void process.stderr.write(text),
  }),
)
// The bundle is a script, where only a function can await.
void running.then(exitCode => {
  // Standard output to a pipe is written in the background: the exit waits for it.
  process.stdout.write('', (error?: NodeJS.ErrnoException | null) => {
    // A reader such as `head` that has read enough is not a fault; a full disk is.
    if (!error || error.code === 'EPIPE') process.exit(exitCode)
    process.stderr.write(`livery: Cannot write to standard output: ${error.message}.\n`)
    process.exit(EXIT.failed)
  })
})
