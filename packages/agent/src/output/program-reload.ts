/** Asks a program that cannot watch its files to read them again: by a signal, or by a command. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fstatSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { type Clock, readSmallFile, scrub, systemErrorCode, withDeadline } from '@livery/core/plugin'
import type { ReloadSetting } from '../config/output-schema.ts'

/** A command that takes longer is killed. */
const COMMAND_MS = 10_000
const MAX_PID_BYTES = 32
/** Characters of a command's standard error that are reported. */
const MAX_PRINTED = 500

/** Resolves when the program was asked; rejects with the reason why it was not. */
export async function reloadProgram(setting: ReloadSetting, clock: Clock): Promise<void> {
  if ('command' in setting) await runCommand(setting.command, clock)
  else send(setting.signal, await readPid(setting.pidFile), setting.pidFile)
}

function send(signal: NodeJS.Signals, pid: number, file: string): void {
  try {
    process.kill(pid, signal)
  } catch (cause) {
    const reason = systemErrorCode(cause) === 'ESRCH' ? 'there is no such process' : String(cause)
    throw new Error(`cannot send ${signal} to process ${pid} of ${file}: ${reason}`, { cause })
  }
}

/** The file's writer chooses the process. A user other than root and the agent's can choose only its own process. */
async function readPid(file: string): Promise<number> {
  let owner = 0
  const content = await readSmallFile(file, MAX_PID_BYTES, async descriptor => {
    owner = fstatSync(descriptor).uid
  })
  const text = content.toString().trim()
  const pid = Number(text)
  // 0 and -1 stand for groups of processes, and 1 is the container's or machine's init.
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(pid) || pid <= 1 || pid === process.pid)
    throw new Error(`${file} does not hold the number of another process`)
  const isTrusted = owner === 0 || owner === process.geteuid?.()
  if (!isTrusted && !(await belongsTo(pid, owner)))
    throw new Error(
      `${file} belongs to uid ${owner}, and process ${pid} does not: have that user's program write its own`,
    )
  return pid
}

/** Whether all user ids of the process are this one (proc_pid_status(5)). */
async function belongsTo(pid: number, uid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const uids = /^Uid:\s+(.*)$/m.exec(status)?.[1]?.split('\t') ?? []
  return uids.length > 0 && uids.every(each => Number(each) === uid)
}

async function runCommand([program, ...args]: readonly [string, ...string[]], clock: Clock): Promise<void> {
  // The environment is empty: the agent's can hold a token.
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
