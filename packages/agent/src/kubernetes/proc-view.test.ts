/** The parts of /proc that the agent needs, and its report where they are missing. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { Fault } from '../schema/fault.ts'
import { readOwnCgroups } from './proc-view.ts'

const skip = process.platform === 'linux' ? false : '/proc is of Linux'

/** A folder like /proc with these processes, by their control groups. */
function procOf(t: TestContext, self: number, groups: Readonly<Record<number, string>>): string {
  const proc = temporaryFolder(t)
  for (const [pid, text] of Object.entries(groups)) {
    mkdirSync(join(proc, pid))
    writeFileSync(join(proc, pid, 'cgroup'), text)
  }
  symlinkSync(String(self), join(proc, 'self'))
  return proc
}

test('the own control groups come from the kernel', { skip }, () => {
  assert.equal(readOwnCgroups(false), readFileSync('/proc/self/cgroup', 'utf8'))
})

for (const [what, self, groups, expected] of [
  ['the /proc of another pid namespace', 1, { 1: '0::/\n' }, /shows this process as 1, .*Mount the \/proc of the pid/],
  ['hidden processes', process.pid, { [process.pid]: '0::/\n' }, /ENOENT.*hidepid and subset=pid, or run the agent as/],
  [
    'a pod without hostPID',
    process.pid,
    { 1: '0::/\n', [process.pid]: '0::/\n' },
    /only the processes of its container; Set hostPID: true/,
  ],
] as const)
  test(`${what} is a fault with its remedy`, t => {
    const fault = readOwnCgroups(true, procOf(t, self, groups))
    assert.ok(fault instanceof Fault)
    assert.match(`${fault.reason}; ${fault.remedy}`, expected)
  })

test('a pod with hostPID sees the init of its node', t => {
  const groups = { 1: '0::/../../../../init.scope\n', [process.pid]: '0::/\n' }
  assert.equal(readOwnCgroups(true, procOf(t, process.pid, groups)), '0::/\n')
})
