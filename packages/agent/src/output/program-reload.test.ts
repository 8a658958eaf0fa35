/** Real processes of two users. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { reloadProgram } from './program-reload.ts'

const NOBODY = 65_534
const skip = process.geteuid?.() === 0 && process.platform === 'linux' ? false : 'needs root on Linux'

async function startProgram(t: TestContext, uid: number): Promise<ChildProcess> {
  const child = spawn('sleep', ['60'], { uid, cwd: '/', stdio: 'ignore' })
  await once(child, 'spawn')
  t.after(() => child.kill('SIGKILL'))
  return child
}

/** A file of nobody, in a folder that the operator gave to nobody. */
function pidFileOf(t: TestContext, pid: number | undefined): string {
  const base = temporaryFolder(t)
  const folder = join(base, 'given')
  mkdirSync(folder)
  const file = join(folder, 'pid')
  writeFileSync(file, `${pid}\n`)
  chownSync(file, NOBODY, NOBODY)
  chownSync(folder, NOBODY, NOBODY)
  return file
}

test("a user's file names only that user's own processes: no signal reaches another's", { skip }, async t => {
  const clock = new FakeClock()
  const other = await startProgram(t, 0)
  const refused = reloadProgram({ signal: 'SIGTERM', pidFile: pidFileOf(t, other.pid) }, clock)
  await assert.rejects(refused, /belongs to uid 65534, and process \d+ does not/)
  const own = await startProgram(t, NOBODY)
  const ended = once(own, 'exit')
  await reloadProgram({ signal: 'SIGUSR2', pidFile: pidFileOf(t, own.pid) }, clock)
  assert.deepEqual(await ended, [null, 'SIGUSR2'])
  assert.equal(other.exitCode ?? other.signalCode, null)
})

test('a process that has ended is named, with its file', { skip }, async t => {
  const ended = await startProgram(t, 0)
  ended.kill('SIGKILL')
  await once(ended, 'exit')
  const file = pidFileOf(t, ended.pid)
  chownSync(file, 0, 0)
  const reload = reloadProgram({ signal: 'SIGHUP', pidFile: file }, new FakeClock())
  await assert.rejects(reload, /cannot send SIGHUP to process \d+ of \S+pid: there is no such process/)
})
