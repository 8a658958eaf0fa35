/** Asks a program that cannot watch its files to read them again: by a signal, or by a command. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type Clock, readSmallFile, scrub, withDeadline } from '@livery/core'
import type { ReloadSetting } from '../config/schema.ts'

/** A command that takes longer is killed. */
const COMMAND_MS = 10_000
const MAX_PID_BYTES = 32
/** How much of what a command prints to standard error is reported. */
const MAX_PRINTED = 500

/** Resolves when the program was asked; rejects with the reason why it was not. */
export async function reloadProgram(setting: ReloadSetting, clock: Clock): Promise<void> {
  if ('command' in setting) await runCommand(setting.command, clock)
  else process.kill(await readPid(setting.pidFile), setting.signal)
}

/** Whoever can write the file would choose the process: `readSmallFile` refuses what others can write. */
async function readPid(file: string): Promise<number> {
  const text = (await readSmallFile(file, MAX_PID_BYTES)).toString().trim()
  const pid = Number(text)
  // 0 and -1 are groups of processes, and 1 is that of the container or the machine.
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(pid) || pid <= 1 || pid === process.pid)
    throw new Error(`${file} does not hold the number of another process`)
  return pid
}

async function runCommand([program, ...args]: readonly [string, ...string[]], clock: Clock): Promise<void> {
  // Nothing of the agent's environment: it can hold a token.
  const child = spawn(program, args, {
    cwd: '/',
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let printed = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (printed.length < MAX_PRINTED) printed += text.slice(0, MAX_PRINTED)
  })
  const error = () => new Error(`${program} did not end within ${COMMAND_MS / 1000} s and was killed`)
  try {
    const [code, signal] = await withDeadline({ clock, ms: COMMAND_MS, error }, () => once(child, 'close'))
    if (code === 0) return
    throw new Error(`${program} ended with ${code ?? signal}: ${scrub(printed.trim())}`)
  } finally {
    child.kill('SIGKILL')
  }
}
