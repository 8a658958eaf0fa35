/** Signals while the program starts, on the real process: from its first line on none ends it otherwise than it would later. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { TemporaryFolder, temporaryFolder } from '@livery/test-support'
import { LiveryProcess, type ProcessOptions } from './livery-process.ts'
import { writePluginModule } from './plugin-module.ts'

const CONFIG = {
  ca: { plugin: 'embedded', directory: 'ca' },
  identities: ['spiffe://cluster.local/ns/default/sa/web'],
  sockets: [{ path: 'sds.sock' }],
  admin: { address: '127.0.0.1:0' },
}
const SERVES = /"msg":"livery .* serves/
const LOOKS = 10
/** Where in the start the signal comes, as parts of what a start reads: its modules, its configuration, the addon. */
const PHASES = [0, 0.2, 0.4, 0.6, 0.8, 0.95, 1] as const

/** Bytes that a process has read so far (proc(5), `rchar`); `undefined` when it has ended. */
function bytesRead(pid: number | undefined): number | undefined {
  try {
    return Number(/^rchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1])
  } catch {
    return undefined
  }
}

/** Whether the program has run its first line: Node itself catches no SIGHUP. */
function catchesHangup(pid: number | undefined): boolean {
  const caught = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0'
  return ((BigInt(`0x${caught}`) >> BigInt(constants.signals.SIGHUP - 1)) & 1n) === 1n
}

class Bench implements Disposable {
  readonly #directory = new TemporaryFolder()
  readonly options: ProcessOptions = { cwd: this.#directory.path }

  constructor() {
    writeFileSync(join(this.#directory.path, 'livery.yaml'), JSON.stringify(CONFIG))
  }

  /** A start that has run its first line, and read as much as `bytes`, or serves. */
  async start(bytes: number): Promise<LiveryProcess> {
    const agent = new LiveryProcess(['run'], this.options)
    const { pid } = agent.child
    while (!catchesHangup(pid)) await setImmediate()
    while ((bytesRead(pid) ?? bytes) < bytes && !SERVES.test(agent.stderr)) await setImmediate()
    return agent
  }

  /** Bytes that a whole start reads. On a busy machine a look at it can come late: the earliest of a few counts. */
  async startBytes(): Promise<{ readonly first: number; readonly last: number }> {
    let [first, last] = [1, 0]
    for (let look = 0; look < LOOKS && first >= last / 4; look++) {
      await using agent = await this.start(0)
      first = bytesRead(agent.child.pid) ?? 0
      await agent.line(SERVES)
      last = bytesRead(agent.child.pid) ?? 0
    }
    assert.ok(first < last / 4, `it listens to signals when it has read ${first} of ${last} bytes`)
    return { first, last }
  }

  [Symbol.dispose](): void {
    this.#directory[Symbol.dispose]()
  }
}

const needsProc = { skip: process.platform === 'linux' ? false : 'needs /proc' }

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  test(`${signal} ends the program as a success, whenever in its start it comes`, needsProc, async t => {
    using bench = new Bench()
    const { first, last } = await bench.startBytes()
    for (const phase of PHASES) {
      await using agent = await bench.start(first + phase * (last - first))
      agent.kill(signal)
      assert.deepEqual(await agent.ended, { code: 0, signal: null }, `at ${phase}: ${agent.stderr}`)
      t.diagnostic(`${phase}: ${agent.stderr.split('\n').length - 1} lines of log`)
    }
  })

for (const signal of ['SIGHUP', 'SIGUSR2'] as const)
  test(`${signal} does not end a start, whenever it comes`, needsProc, async () => {
    using bench = new Bench()
    const { first, last } = await bench.startBytes()
    for (const phase of PHASES) {
      await using agent = await bench.start(first + phase * (last - first))
      agent.kill(signal)
      await agent.line(SERVES)
      agent.kill(signal)
      await agent.line(/"msg":"reloaded: |SIGUSR2 does nothing/)
      agent.kill('SIGTERM')
      assert.deepEqual(await agent.ended, { code: 0, signal: null }, `at ${phase}: ${agent.stderr}`)
    }
  })

test('an agent that waits for its CA while it starts ends as a success', async t => {
  const directory = temporaryFolder(t)
  await writePluginModule(directory, { onCreate: "context.log.info('creating'); await new Promise(() => {})" })
  writeFileSync(join(directory, 'livery.yaml'), JSON.stringify({ ...CONFIG, ca: { plugin: './acme.mjs' } }))
  await using agent = new LiveryProcess(['run'], { cwd: directory })
  await agent.line(/creating/)
  agent.kill('SIGTERM')
  assert.deepEqual(await agent.ended, { code: 0, signal: null }, agent.stderr)
})

test('Node is started with each of its options once, by a shell too', needsProc, async () => {
  using bench = new Bench()
  for (const launcher of [[], ['/bin/sh', '-c', 'shift; exec "$@"', 'sh']]) {
    await using agent = new LiveryProcess(['run'], { ...bench.options, launcher })
    await agent.line(SERVES)
    const words = readFileSync(`/proc/${agent.child.pid}/cmdline`, 'utf8').split('\0')
    for (const option of ['--disable-sigusr1', '--max-semi-space-size=8', '--min-semi-space-size=8'])
      assert.equal(words.filter(word => word === option).length, 1, words.join(' '))
  }
})
