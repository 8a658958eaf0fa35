/** One agent takes over from another with real processes: store, addresses and sockets, and nobody notices. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { freePort, listening, portOf, TemporaryFolder, temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const NAMES = Array.from({ length: 20 }, (_, index) => `spiffe://cluster.local/ns/default/sa/web-${index}`)
const [WEB = ''] = NAMES
const IN_POD = { KUBERNETES_SERVICE_HOST: '10.0.0.1' }

/** Writes the configuration of both agents: a socket for all, a store, and an admin endpoint on a port of its own. */
async function configure(
  cwd: string,
  extra: object = {},
): Promise<{ readonly socket: string; readonly admin: string }> {
  const admin = `127.0.0.1:${await freePort()}`
  const config = {
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: NAMES.map(id => ({ id })),
    sockets: [{ path: 'sds.sock', allow: ['spiffe://cluster.local/**'] }],
    store: { directory: 'store' },
    admin: { address: admin, tokenFile: 'admin-token' },
    drain: '300ms',
    ...extra,
  }
  await writeFile(join(cwd, 'admin-token'), 'secret-of-the-operator', { mode: 0o600 })
  await writeFile(join(cwd, 'store-key'), Buffer.alloc(32, 7), { mode: 0o600 })
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  return { socket: join(cwd, 'sds.sock'), admin }
}

const renewWeb = async (admin: string): Promise<number> => {
  const headers = { authorization: 'Bearer secret-of-the-operator' }
  return (await fetch(`http://${admin}/renew?name=${WEB}`, { method: 'PUT', headers })).status
}

const start = (cwd: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  new LiveryProcess(['--json', 'run', ...args], { cwd, env })

const serialsOf = async (socket: string): Promise<readonly string[]> => {
  const secrets = await fetchSecrets(socket, NAMES)
  return secrets.map(({ certificateChain }) => new X509Certificate(certificateChain).serialNumber).sort()
}

const allIssued = async (admin: string): Promise<void> => {
  while ((await fetch(`http://${admin}/healthz/ready?strict`)).status !== 200);
}

interface Owner extends AsyncDisposable {
  readonly cwd: string
  readonly socket: string
  readonly admin: string
  readonly first: LiveryProcess
}

/** Starts an agent that owns its store; resolves when it has every certificate. */
async function startOwner(env: Readonly<Record<string, string>> = {}, extra: object = {}): Promise<Owner> {
  await using parts = new AsyncDisposableStack()
  const { path: cwd } = parts.use(new TemporaryFolder())
  const { socket, admin } = await configure(cwd, extra)
  const first = parts.use(start(cwd, [], env))
  await first.admin()
  await allIssued(admin)
  const all = parts.move()
  return { cwd, socket, admin, first, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

/** A successor that stops after some steps. */
class HalfSuccessor implements Disposable {
  readonly #socket: Socket
  readonly #answers: AsyncIterator<string>

  constructor(cwd: string) {
    this.#socket = connect(join(cwd, 'store/owner.sock'))
    this.#socket.on('error', () => {})
    this.#answers = createInterface({ input: this.#socket })[Symbol.asyncIterator]()
  }

  async send(line: string): Promise<unknown> {
    this.#socket.write(`${line}\n`)
    const { value } = await this.#answers.next()
    return value === undefined ? undefined : JSON.parse(value)
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
  }
}

test('an agent with --takeover gets store and sockets, then the addresses, no call is left unanswered, and no certificate is new', async t => {
  await using owner = await startOwner()
  const { cwd, socket, admin, first } = owner
  const before = await serialsOf(socket)
  using stream = await openStream(socket, [WEB])

  let calls = 0
  let longest = 0
  let isOver = false
  const caller = async (): Promise<void> => {
    while (!isOver) {
      const asked = performance.now()
      const [secret] = await fetchSecrets(socket, [WEB])
      assert.ok(secret?.privateKey)
      longest = Math.max(longest, performance.now() - asked)
      calls++
    }
  }
  const callers = Promise.all([caller(), caller()])
  await using second = start(cwd, ['--takeover'])
  await second.admin()
  assert.deepEqual(await first.ended, { code: 0, signal: null })
  await second.line(/"event":"endpoint-acquired","endpoint":"admin"|"endpoint":"admin".*"event":"endpoint-acquired"/)
  isOver = true
  await callers
  t.diagnostic(`${calls} calls on new connections meanwhile, the longest took ${longest.toFixed(1)} ms`)

  assert.equal(await stream.ended, 14, 'the streams of the first are asked to come again')
  assert.deepEqual(await serialsOf(socket), before)
  const metrics = await (await fetch(`http://${admin}/metrics`)).text()
  assert.match(metrics, /^istio_agent_num_outgoing_requests\{request_type="csr"\} 0$/m)
  assert.match(first.stderr, /another agent serves now: draining/)
  assert.doesNotMatch(first.stderr + second.stderr, /"level":"(?:error|fatal)"/)
})

test('a store has one owner: a second agent without --takeover does not start, and says how it could', async () => {
  await using owner = await startOwner()
  const { cwd, admin, first } = owner
  // It would seal what it finds in plain text.
  const config = JSON.parse(await readFile(join(cwd, 'livery.yaml'), 'utf8'))
  await writeFile(
    join(cwd, 'sealed.yaml'),
    JSON.stringify({ ...config, store: { ...config.store, keyFile: 'store-key' } }),
  )
  const plain = async () => (await readdir(join(cwd, 'store'))).filter(name => name.endsWith('.pem'))
  const before = await plain()
  const { code, stderr } = await livery(['run', '--config', 'sealed.yaml'], { cwd })
  assert.equal(code, 1)
  // The owner may write more meanwhile.
  const after = new Set(await plain())
  assert.deepEqual(
    before.filter(name => !after.has(name)),
    [],
  )
  assert.match(
    stderr,
    /Cannot use the store in .*store: another agent owns it\. Stop that one, or start this one with --takeover/,
  )
  first.kill('SIGKILL')
  await first.ended
  await using third = start(cwd, [])
  await third.admin()
  await allIssued(admin)
})

test('a successor that ends half way leaves the first agent with all that it had', async () => {
  await using owner = await startOwner()
  const { cwd, socket, admin, first } = owner
  const before = await serialsOf(socket)
  {
    using half = new HalfSuccessor(cwd)
    assert.deepEqual(await half.send('{"step":"store"}'), { done: 'store' })
    assert.equal((await fetch(`http://${admin}/healthz/live`)).status, 200)
    assert.deepEqual(await serialsOf(socket), before)
  }
  await first.line(/the agent that was taking over ended before it served: this one continues/)
  await first.line(/all that the other agent was given is taken back/)
  {
    const hasty = connect(join(cwd, 'store/owner.sock')).on('error', () => {})
    await once(hasty, 'connect')
    hasty.end('{"step":"store"}\n')
  }
  await first.lines(/this one continues/, 2)
  await first.lines(/all that the other agent was given is taken back/, 2)
  assert.equal(await renewWeb(admin), 202)
  await first.lines(/"event":"issued"/, NAMES.length + 1)

  await using second = start(cwd, ['--takeover'])
  await second.admin()
  assert.deepEqual(await first.ended, { code: 0, signal: null })
  const after = await serialsOf(socket)
  assert.equal(after.filter(serial => before.includes(serial)).length, NAMES.length - 1, 'the new one was stored')
})

test('a successor that ends after it has replaced a socket leaves nobody without an answer', async () => {
  await using owner = await startOwner()
  const { cwd, socket, first } = owner
  const before = await serialsOf(socket)
  for (const isSuperseded of [true, false]) {
    using half = new HalfSuccessor(cwd)
    assert.deepEqual(await half.send('{"step":"store"}'), { done: 'store' })
    const replacement = await listening(createServer(), `${socket}.next`)
    await rename(`${socket}.next`, socket)
    if (isSuperseded) await first.line(/"event":"socket-superseded"/)
    replacement.close()
    half[Symbol.dispose]()
    await first.lines(/"event":"socket-recreated"/, isSuperseded ? 1 : 2)
    assert.deepEqual(await serialsOf(socket), before)
    await first.lines(/all that the other agent was given is taken back/, isSuperseded ? 1 : 2)
  }
})

test('a successor that is killed while its owner drains leaves it the sockets, the store, sealed here, and the next successor', async () => {
  const store = { directory: 'store', keyFile: 'store-key' }
  await using owner = await startOwner({}, { drain: '20s', store })
  const { cwd, socket, admin, first } = owner
  const before = await serialsOf(socket)
  // It has something to drain.
  using _stream = await openStream(socket, [WEB])
  {
    await using second = start(cwd, ['--takeover'])
    await first.line(/another agent serves now: draining/)
    await second.line(/"msg":"livery .* serves/)
    assert.equal((await fetch(`http://${admin}/healthz/ready`)).status, 503)
    second.kill('SIGKILL')
  }
  await first.line(/the agent that was taking over ended while this one drained: this one continues/)
  await first.line(/all that the other agent was given is taken back/)
  assert.deepEqual(await serialsOf(socket), before)
  assert.equal((await fetch(`http://${admin}/healthz/ready`)).status, 200)
  assert.equal(await renewWeb(admin), 202)
  await first.lines(/"event":"issued"/, NAMES.length + 1)

  await using third = start(cwd, ['--takeover'])
  await third.admin()
  const after = await serialsOf(socket)
  assert.equal(after.filter(serial => before.includes(serial)).length, NAMES.length - 1, 'the new one was stored')
  first.kill('SIGKILL')
  await third.line(/"event":"endpoint-acquired"/)
})

for (const when of [/another agent takes over: it gets the store/, /another agent serves now: draining/])
  test(`an owner that is killed in a takeover (${when.source}) takes its successor with it neither then nor later`, async () => {
    await using owner = await startOwner({}, { drain: '20s' })
    const { cwd, socket, admin, first } = owner
    const before = await serialsOf(socket)
    using _stream = await openStream(socket, [WEB])
    await using second = start(cwd, ['--takeover'])
    await first.line(when)
    first.kill('SIGKILL')
    await second.line(/"msg":"livery .* serves/)
    assert.deepEqual(await serialsOf(socket), before)
    while (!(await fetch(`http://${admin}/healthz/ready`).catch(() => undefined))?.ok);
  })

test('a process on the admin and the health address keeps no successor from taking over, and gets in the way of no later one', async t => {
  const cwd = temporaryFolder(t)
  const squatters = await Promise.all([listening(createServer()), listening(createServer())])
  t.after(() => squatters.map(squatter => squatter.close()))
  const [admin = '', health] = squatters.map(squatter => `127.0.0.1:${portOf(squatter)}`)
  const { socket } = await configure(cwd, {
    admin: { address: admin, tokenFile: 'admin-token' },
    health: { address: health },
  })
  const first = start(cwd, [])
  await using agents = new AsyncDisposableStack()
  agents.use(first)
  await first.line(/"msg":"livery .* serves/)
  await first.lines(/"event":"issued"/, NAMES.length)
  const before = await serialsOf(socket)
  let owner = first
  for (const _ of ['second', 'third']) {
    const next = agents.use(start(cwd, ['--takeover']))
    await next.line(/"msg":"livery .* serves/)
    assert.deepEqual(await owner.ended, { code: 0, signal: null })
    assert.deepEqual(await serialsOf(socket), before)
    owner = next
  }
  for (const squatter of squatters) squatter.close()
  await owner.lines(/"event":"endpoint-acquired"/, 2)
  await allIssued(admin)
})

test('an agent that hands over leaves the path of a new socket to its successor, also where it took over itself', async t => {
  const cwd = temporaryFolder(t)
  await configure(cwd)
  await using first = start(cwd, ['--takeover'])
  await first.admin()
  using half = new HalfSuccessor(cwd)
  assert.deepEqual(await half.send('{"step":"store"}'), { done: 'store' })
  const path = join(cwd, 'late.sock')
  await using _replacement = await listening(createServer(), path)
  const { ino } = await stat(path)
  const file = join(cwd, 'livery.yaml')
  const config: object = JSON.parse(await readFile(file, 'utf8'))
  await writeFile(file, JSON.stringify({ ...config, identities: [{ id: WEB, socket: 'late.sock' }] }))
  await first.line(/"msg":"reloaded: /)
  assert.equal((await stat(path)).ino, ino)
  const line = await first.line(/"event":"socket-waiting".*late\.sock/)
  assert.match(line, /^\{"level":"info"/)
  assert.match(line, /the agent that takes over serves it already/)
})

test('a handover refuses a second successor, unknown steps and long lines, and its socket is for its owner only', async () => {
  await using owner = await startOwner()
  const { cwd, admin, first } = owner
  assert.equal((await stat(join(cwd, 'store/owner.sock'))).mode & 0o777, 0o600)
  {
    using half = new HalfSuccessor(cwd)
    assert.deepEqual(await half.send('{"step":"keys"}'), {
      failed: 'this step is not known here: the two agents may be of different versions',
    })
    assert.deepEqual(await half.send('nothing'), {
      failed: 'this step is not known here: the two agents may be of different versions',
    })
    assert.deepEqual(await half.send('{"step":"store"}'), { done: 'store' })
    using other = new HalfSuccessor(cwd)
    assert.deepEqual(await other.send('{"step":"store"}'), { failed: 'another agent is taking over already' })
    assert.equal(await half.send('x'.repeat(5_000)), undefined)
  }
  assert.equal((await fetch(`http://${admin}/healthz/live`)).status, 200)
  await first.line(/this one continues/)
})

test('in a pod the first agent stays, not ready, and ends as failed when its successor is gone', async () => {
  await using owner = await startOwner(IN_POD)
  const { cwd, admin, first } = owner
  // Another address: each pod has a network of its own.
  const own = `127.0.0.1:${await freePort()}`
  await using second = start(cwd, ['--admin', own, '--takeover'], IN_POD)
  await second.admin()
  await first.line(/drained: this process stays until it is stopped/)
  assert.equal((await fetch(`http://${admin}/healthz/live`)).status, 200)
  assert.equal((await fetch(`http://${admin}/healthz/ready`)).status, 503)
  second.kill('SIGKILL')
  assert.deepEqual(await first.ended, { code: 1, signal: null })
})
