import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { TemporaryFolder } from '@livery/test-support'
import { LiveryProcess } from './livery-process.ts'
import { fetchSecrets } from './sds-client.ts'

const ATTACKER = fileURLToPath(new URL('admin-attacker.ts', import.meta.url))
const IDENTITIES = 2_000
const NAME = 'spiffe://cluster.local/ns/load/sa/sa-7'
const CONFIG = {
  ca: { plugin: 'embedded', directory: 'ca' },
  identities: [{ range: `spiffe://cluster.local/ns/load/sa/sa-{0..${IDENTITIES - 1}}` }],
  sockets: [{ path: 'sds.sock', allow: ['spiffe://cluster.local/ns/load/sa/*'] }],
  admin: { address: '127.0.0.1:0' },
  health: { address: '127.0.0.1:0' },
}
/** Kubelet's defaults: the timeout of a probe, and the number of failures in a row. The agent has a core for itself. */
const PROBE_MS = 1_000
const FAILURE_THRESHOLD = 3

/** Linux counts CPU for programs in hundredths of a second (proc(5), `_SC_CLK_TCK`). */
const MS_PER_TICK = 10

class Bench implements AsyncDisposable {
  readonly agent: LiveryProcess
  readonly admin: string
  readonly health: string
  readonly #socket: string
  readonly #parts: AsyncDisposableStack

  private constructor(
    agent: LiveryProcess,
    addresses: { readonly admin: string; readonly health: string },
    socket: string,
    parts: AsyncDisposableStack,
  ) {
    this.agent = agent
    this.admin = addresses.admin
    this.health = addresses.health
    this.#socket = socket
    this.#parts = parts
  }

  static async start(): Promise<Bench> {
    await using parts = new AsyncDisposableStack()
    const directory = parts.use(new TemporaryFolder())
    writeFileSync(join(directory.path, 'livery.yaml'), JSON.stringify(CONFIG))
    const agent = parts.use(new LiveryProcess(['run'], { cwd: directory.path }))
    const addresses = JSON.parse(await agent.line(/ serves /))
    const bench = new Bench(agent, addresses, join(directory.path, 'sds.sock'), parts.move())
    // Until the last is issued, the agent is busy with its CA.
    while ((await bench.probe('/healthz/ready?strict')) !== 200) await new Promise(setImmediate)
    return bench
  }

  /** The status of a probe, or why there was none in time: that of the agent, since others use the machine, too. */
  async probe(path = '/healthz/live'): Promise<number | string> {
    const start = this.#loopMs
    try {
      const response = await fetch(`http://${this.health}${path}`)
      await response.arrayBuffer()
      const ms = this.#loopMs - start
      return ms < PROBE_MS ? response.status : `answered after ${ms} ms of the agent`
    } catch (error) {
      return String(error)
    }
  }

  /** As {@link probe}, asked again as often as kubelet does before it believes a failure. */
  async probeAgain(path?: string): Promise<number | string> {
    let answer = await this.probe(path)
    for (let tries = 1; answer !== 200 && tries < FAILURE_THRESHOLD; tries++) answer = await this.probe(path)
    return answer
  }

  /** Starts a hostile process, and resolves when its connections are open. */
  async attack(t: TestContext, target: string, ...args: string[]): Promise<ChildProcess> {
    const attacker = spawn(process.execPath, [ATTACKER, target, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => attacker.kill('SIGKILL'))
    if (attacker.stdout) await once(attacker.stdout, 'data')
    return attacker
  }

  /** The median time of a request for one secret: milliseconds in which the agent's event loop ran meanwhile. */
  async secretMs(): Promise<number> {
    const times: number[] = []
    for (let request = 0; request < 15; request++) {
      const start = this.#loopMs
      assert.equal((await fetchSecrets(this.#socket, [NAME])).length, 1)
      times.push(this.#loopMs - start)
    }
    return times.sort((a, b) => a - b)[7] ?? Number.POSITIVE_INFINITY
  }

  /** CPU of the agent's main thread: what is answered late for its sake comes after more of it, on a busy machine as on a calm one. */
  get #loopMs(): number {
    const { pid } = this.agent.child
    const stat = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8')
    const [user, system] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
    return (Number(user) + Number(system)) * MS_PER_TICK
  }

  get residentMb(): number {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.agent.child.pid}/status`, 'utf8'))?.[1]) / 1024
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync()
  }
}

function maxDescriptors(): number {
  return Number(/Max open files\s+(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 0)
}

for (const [way, count, what] of [
  ['idle', 5_000, 'idle connections'],
  ['dribble', 5_000, 'heads that come a byte at a time'],
  ['deaf', 500, 'readers that stop'],
] as const) {
  test(`probes are answered under ${count} ${what}`, async t => {
    if (maxDescriptors() < 6_000) return t.skip('needs 6,000 file descriptors: raise ulimit -n')
    await using bench = await Bench.start()
    await bench.attack(t, bench.health, way, String(count), '/metrics')
    for (let probe = 0; probe < 20; probe++) assert.equal(await bench.probeAgain(), 200, `probe ${probe}`)
    assert.equal(await bench.probeAgain('/healthz/ready'), 200)
  })
}

for (const [path, what] of [
  ['/config_dump', 'the dump'],
  ['/page/state', 'the state of the page'],
  ['/page/events', 'the events of the page'],
] as const) {
  test(`a hundred clients that ask for ${what} and do not read it hold up no secret and take no memory`, async t => {
    await using bench = await Bench.start()
    const calmMb = bench.residentMb
    await bench.attack(t, bench.admin, 'deaf', '100', path)
    const attackedMs = await bench.secretMs()
    assert.ok(attackedMs < 100, `a secret came after ${attackedMs} ms of the agent`)
    const grownMb = bench.residentMb - calmMb
    assert.ok(grownMb < 100, `${grownMb.toFixed(0)} MB more than before`)
    assert.equal(await bench.probe(), 200)
  })
}

for (const path of [
  '/config_dump',
  '/metrics',
  '/healthz/ready',
  '/healthz/live',
  `/explain?name=${NAME}`,
  `/explain?name=${NAME}x`,
  '/page/state',
  '/page/events',
]) {
  test(`a hundred clients that ask for ${path} without end hold up no secret`, async t => {
    await using bench = await Bench.start()
    await bench.attack(t, bench.admin, 'hammer', '100', path)
    const attackedMs = await bench.secretMs()
    assert.ok(attackedMs < 100, `a secret came after ${attackedMs} ms of the agent`)
    assert.equal(await bench.probe(), 200)
  })
}

test('clients that write a thousand requests into one segment hold up no secret', async t => {
  await using bench = await Bench.start()
  await bench.attack(t, bench.admin, 'pipeline', '10', '/healthz/live')
  const attackedMs = await bench.secretMs()
  assert.ok(attackedMs < 100, `a secret came after ${attackedMs} ms of the agent`)
})
