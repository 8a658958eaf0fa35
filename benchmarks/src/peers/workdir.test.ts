import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { Workdir } from './workdir.ts'

const linux = process.platform === 'linux' ? false : 'it reads /proc, which only Linux has'
const node = process.execPath
const stays = 'process.stdout.write("READY\\n"); setInterval(() => {}, 1e6)'
const isRunning = (pid: number) => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('closing ends what was started and removes the folder', { skip: linux }, async () => {
  const workdir = new Workdir()
  const { server } = await workdir.start(node, ['-e', stays], ({ output }) => output().includes('READY') || undefined)
  assert.ok(isRunning(server.pid))
  await workdir[Symbol.asyncDispose]()
  assert.ok(!isRunning(server.pid))
  assert.ok(!existsSync(workdir.folder))
})

test('a child that a server started in a group of its own ends with it', { skip: linux }, async () => {
  const options = "{ detached: true, stdio: ['ignore', 'inherit', 'inherit'] }"
  const parent = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(stays)}], ${options})`
  const workdir = new Workdir()
  await workdir.start(node, ['-e', parent], ({ output }) => output().includes('READY') || undefined)
  // The child holds the parent's stdout open: this never resolves while it runs.
  await workdir[Symbol.asyncDispose]()
})

test('a server that ends before it is ready is reported with its stderr', { skip: linux }, async () => {
  await using workdir = new Workdir()
  const failing = ['-e', 'console.error("no such socket"); process.exitCode = 3']
  await assert.rejects(
    workdir.start(node, failing, () => undefined),
    /ended before it was ready: no such socket/,
  )
})

test('a run gives its output and the CPU time of its process', { skip: linux }, async () => {
  await using workdir = new Workdir()
  const busy = 'const end = process.cpuUsage().user + 3e5; while (process.cpuUsage().user < end); console.log("done")'
  const { stdout, cpuSeconds } = await workdir.run(node, ['-e', busy])
  assert.equal(stdout, 'done\n')
  assert.ok(cpuSeconds >= 0.25, `${cpuSeconds} s`)
})

test('a run that fails is reported with its exit code and output', { skip: linux }, async () => {
  await using workdir = new Workdir()
  await assert.rejects(workdir.run(node, ['-e', 'console.error("bad"); process.exit(7)']), /exit code 7\): bad/)
  await assert.rejects(workdir.run('/nowhere/program', []), /ENOENT/)
})
