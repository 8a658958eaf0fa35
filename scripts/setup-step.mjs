// The common parts of the setup's steps: report, find out whether the step is due, run a program that Ctrl-C ends.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
/** An interrupted npm waits for its downloads: half a minute. */
const END_MS = 1_000

/**
 * Runs a program in a separate process group, so that a signal also ends its children: this process ends after it, since a second
 * setup must not meet the first one at work. Programs that do not end in time are killed. Resolves with the exit code; 127 if the
 * program cannot be started. `output`: the file descriptor for stdout and stderr.
 */
export async function runGroup(command, args, { cwd, output }) {
  const child = spawn(command, args, { cwd, stdio: ['ignore', output, output], detached: true })
  let received
  const stop = signal => {
    if (child.pid === undefined || received !== undefined) return
    received = signal
    killGroup(child.pid, signal)
    setTimeout(killGroup, END_MS, child.pid, 'SIGKILL')
  }
  for (const signal of SIGNALS) process.on(signal, stop)
  const status = await new Promise(resolve => {
    child.on('error', () => resolve(127))
    child.on('exit', code => resolve(code ?? 1))
  })
  for (const signal of SIGNALS) process.off(signal, stop)
  if (received !== undefined) process.exit(128 + constants.signals[received])
  return status
}

function killGroup(pid, signal) {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    // The group has ended in the meantime.
    if (error.code !== 'ESRCH') throw error
  }
}

/** Whether the step has recorded this fingerprint of its sources. */
export function isDone(stamp, wanted) {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted
}

export function fingerprint(paths) {
  const hash = createHash('sha256').update(`${process.platform}-${process.arch}`)
  for (const path of paths) hash.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0')
  return hash.digest('hex')
}

export function say(text) {
  process.stderr.write(`livery setup: ${text}\n`)
}
