/** A hostile plugin in its own process: each right is refused by name, and the agent is not affected. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { type Bench, setUp } from '../../test/isolated-bench.ts'
import { LiveryProcess } from '../../test/livery-process.ts'
import { writePluginModule } from '../../test/plugin-module.ts'
import { NOBODY, noOtherUser } from '../../test/plugin-user.ts'
import type { PluginUser } from './messages.ts'

const never = new AbortController().signal

/** Files that every user could read if the process had the right to, and a socket that only root can reach. */
async function surroundings(
  t: TestContext,
  bench: Bench,
): Promise<{ readonly secret: string; readonly socket: string }> {
  const outside = temporaryFolder(t)
  await chmod(outside, 0o755)
  const secret = join(outside, 'key.pem')
  await writeFile(secret, 'a key', { mode: 0o644 })
  const own = join(bench.folder, 'own')
  await mkdir(own)
  await chmod(own, 0o777)
  return { secret, socket: join(outside, 'sds.sock') }
}

/** An attempt, and the code or text of its refusal. */
type Attempt = readonly [what: string, does: string, refusal: string]

/** Refused by Node and by the agent, whoever the user is. */
const CONFINED: readonly Attempt[] = [
  ['read a file of the store', `readFileSync(secret)`, 'ERR_ACCESS_DENIED'],
  ['read /etc/passwd', `readFileSync('/etc/passwd')`, 'ERR_ACCESS_DENIED'],
  ["read the agent's memory", `readFileSync('/proc/' + process.ppid + '/mem')`, 'ERR_ACCESS_DENIED'],
  ["read the agent's environment", `readFileSync('/proc/' + process.ppid + '/environ')`, 'ERR_ACCESS_DENIED'],
  ['list its descriptors', `readdirSync('/proc/self/fd')`, 'ERR_ACCESS_DENIED'],
  ['write beside itself', `writeFileSync(folder + '/own/x', '')`, 'ERR_ACCESS_DENIED'],
  ['start a process', `(await import('node:child_process')).spawnSync('/bin/true')`, 'ERR_ACCESS_DENIED'],
  ['start a thread', `new (await import('node:worker_threads')).Worker('0', { eval: true })`, 'ERR_ACCESS_DENIED'],
  ['use internal bindings', `process.binding('spawn_sync')`, 'ERR_ACCESS_DENIED'],
  ['open the inspector', `new (await import('node:inspector')).Session().connect()`, 'ERR_ACCESS_DENIED'],
  ['load native code', `process.dlopen({ exports: {} }, '/lib/x.node')`, 'ERR_DLOPEN_DISABLED'],
  [
    'have a token of a file that it chooses',
    `await context.credentials.get({ tokenFile: secret, signal: new AbortController().signal })`,
    'denied',
  ],
]

/** Refused by the kernel to another user than the agent's. */
const OTHER_USER: readonly Attempt[] = [
  ["connect to the agent's socket", `await once(connect(socket), 'connect')`, 'EACCES'],
  ['signal the agent', `process.kill(process.ppid, 0)`, 'EPERM'],
  ['become root', `process.setuid(0)`, 'EPERM'],
  ['become the group of root', `process.setgid(0)`, 'EPERM'],
  ['join groups', `process.setgroups([0])`, 'EPERM'],
]

/** The refusals of `attempts` in the order of the table, and what else the plugin sees of itself. */
async function attempt(t: TestContext, attempts: readonly Attempt[], user?: PluginUser) {
  const bench = await setUp(t, user)
  const { secret, socket } = await surroundings(t, bench)
  const server = await listening(createServer(), socket)
  t.after(() => server.close())
  await chmod(socket, 0o660)
  const onCreate = `
    const { readFileSync, readdirSync, writeFileSync } = await import('node:fs')
    const { connect } = await import('node:net')
    const { once } = await import('node:events')
    const [secret, socket] = ${JSON.stringify([secret, socket])}
    const tried = []
    const attempt = async action => {
      try { await action(); tried.push('done') } catch (error) { tried.push(error.code ?? String(error)) }
    }
    ${attempts.map(([, does]) => `await attempt(async () => { ${does} })`).join('\n')}
    const ids = { uid: process.getuid(), euid: process.geteuid(), gid: process.getgid(), groups: process.getgroups() }
    context.log.info(JSON.stringify({ tried, ids, env: process.env }))`
  const credentials = { description: 'a token', get: async () => ({ token: 'the token' }) }
  await bench.open(t, { onCreate }, { credentials })
  const { tried, ids, env } = JSON.parse(await bench.line(/"tried"/))
  assert.deepEqual(
    attempts.map(([what], index) => [what, tried[index]]),
    attempts.map(([what, , refusal]) => [what, refusal]),
  )
  assert.equal(tried.length, attempts.length)
  assert.deepEqual(env, {})
  return ids
}

test('a hostile plugin is refused files, processes, native code and tokens of files, whoever runs the agent', async t => {
  const { uid } = await attempt(t, CONFINED)
  assert.equal(uid, process.getuid?.())
})

test('a hostile plugin with a separate user is refused sockets, signals and other users, too, each by name', {
  skip: noOtherUser,
}, async t => {
  const ids = await attempt(t, [...CONFINED, ...OTHER_USER], NOBODY)
  assert.deepEqual(ids, { uid: NOBODY.uid, euid: NOBODY.uid, gid: NOBODY.gid, groups: [NOBODY.gid] })
})

async function descriptors(pid: number): Promise<readonly string[]> {
  const folder = `/proc/${pid}/fd`
  const links = (await readdir(folder)).map(fd => readlink(join(folder, fd)).catch(() => 'closed since'))
  return await Promise.all(links)
}

test('the process of a plugin has no descriptor of the agent', async t => {
  const bench = await setUp(t)
  const listener = await listening(createServer(), join(bench.folder, 'sds.sock'))
  t.after(() => listener.close())
  await bench.open(t, { onCreate: `context.log.info('pid ' + process.pid)` })
  const pid = Number((await bench.line(/^pid \d+$/)).slice(4))
  const theirs = await descriptors(pid)
  const ours = new Set((await descriptors(process.pid)).filter(link => /^(socket|pipe):/.test(link)))
  assert.deepEqual(
    theirs.filter(link => ours.has(link) || !/^(socket:|pipe:|anon_inode:|\/dev\/null$)/.test(link)),
    [],
  )
  assert.ok(theirs.length > 3 && ours.size > 3)
})

/** Node closes those below 16 itself, and the shell of POSIX opens none above 9. */
const noBash = spawnSync('bash', ['-c', 'true']).status === 0 ? false : 'there is no bash'
const noRoot = process.geteuid?.() === 0 ? false : 'only root sees the descriptors of an agent'

test('the process of a plugin has no descriptor that the agent was started with', {
  skip: noRoot || noBash,
}, async t => {
  const cwd = temporaryFolder(t)
  await chmod(cwd, 0o755)
  const secret = join(cwd, 'secret')
  await writeFile(secret, 'a key', { mode: 0o600 })
  const onCreate = `context.log.info('pid ' + globalThis.process.pid)`
  await writePluginModule(cwd, { onCreate })
  const config = {
    ca: { plugin: './acme.mjs' },
    identities: [{ id: 'spiffe://cluster.local/a', socket: 'a.sock' }],
    admin: { address: '127.0.0.1:0' },
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const launcher = ['bash', '-c', 'exec 20<"$0"; exec "$@"', secret]
  await using agent = new LiveryProcess(['run'], { cwd, launcher })
  const [, pid] = /pid (\d+)/.exec(await agent.line(/"msg":".*pid \d+/)) ?? []
  assert.ok((await descriptors(agent.child.pid ?? 0)).includes(secret), 'the agent was not started with it')
  const theirs = await descriptors(Number(pid))
  assert.ok(theirs.length > 3 && !theirs.includes(secret), theirs.join())
})

/** Writes to the channel below what the agent's own code in the process would write. */
const RAW = `
  const { writeSync } = await import('node:fs')
  const raw = buffer => {
    for (let at = 0; at < buffer.length; )
      try { at += writeSync(3, buffer, at) } catch (error) { if (error.code !== 'EAGAIN') throw error }
  }
  const uint32 = number => {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(number)
    return bytes
  }
  const frame = (text, bytes = '') => {
    const json = Buffer.from(text)
    return Buffer.concat([uint32(4 + json.length + bytes.length), uint32(json.length), json, Buffer.from(bytes)])
  }`

const REFUSED: readonly (readonly [what: string, bytes: string, says: RegExp])[] = [
  ['a message of 4 GB', `Buffer.alloc(4, 255)`, /it has 4294967295 bytes, not 4 to 2097152/],
  ['a message of one byte too many', `uint32(2_097_153)`, /it has 2097153 bytes, not 4 to 2097152/],
  ['what is not JSON', `frame('{')`, /refused: /],
  ['a message of an unknown kind', `frame('{"kind":"x"}')`, /its kind is not one that is known/],
  ['null', `frame('null')`, /its form is not one that is known/],
  ['an error of null', `frame('{"kind":"error","id":1,"error":null}')`, /its error is not one that is known/],
  ['a call of an unknown method', `frame('{"kind":"call","method":"constructor","argument":1}')`, /its method is not/],
  [
    'a line of an unknown level',
    `frame('{"kind":"call","method":"log","argument":{"level":"__proto__","message":""}}')`,
    /its argument\.level is not/,
  ],
  ['nested lists', `frame('['.repeat(1e6) + ']'.repeat(1e6))`, /nested deeper than 32 levels/],
  [
    'more bytes than it has',
    `frame('{"kind":"answer","id":1,"value":{"$bytes":1000000000}}')`,
    /names more bytes than it has/,
  ],
  [
    'the same bytes twice',
    `frame('{"kind":"answer","id":1,"value":[{"$bytes":4},{"$bytes":4}]}', 'once')`,
    /names more bytes than it has/,
  ],
]

for (const [what, bytes, says] of REFUSED)
  test(`a process that sends ${what} is killed, and nothing of it is used`, async t => {
    const bench = await setUp(t)
    const client = await bench.open(t, { onIssue: `${RAW}; raw(${bytes}); for (;;) {}` })
    const request = { identity: 'spiffe://cluster.local/a', ttlSeconds: 60, signal: never, csr: assert.fail } as const
    await assert.rejects(client.issue(request), { code: 'unavailable', message: says })
    assert.match(bench.errors()[0] ?? '', /sent a message that is refused: /)
  })

test('300 MB of the largest messages are not held by the agent, and its other plugins are answered', async t => {
  const [bench, other] = [await setUp(t), await setUp(t)]
  const line = `frame(JSON.stringify({ kind: 'call', method: 'log', argument: { level: 'info', message: 'x '.repeat(1e6) } }))`
  const flood = `${RAW}; const line = ${line}; for (let i = 0; i < 150; i++) raw(line); context.log.info('flooded')`
  const client = await bench.open(t, { onIssue: `${flood}; throw new CAError('denied', 'flooded')` })
  const calm = await other.open(t, { onIssue: `throw new CAError('denied', 'calm')` })
  const request = { identity: 'spiffe://cluster.local/a', ttlSeconds: 60, signal: never, csr: assert.fail } as const
  const before = process.memoryUsage.rss()
  let isFlooding = true
  let answers = 0
  const flooding = client.issue(request).finally(() => {
    isFlooding = false
  })
  flooding.catch(() => {})
  let peak = before
  while (isFlooding) {
    await assert.rejects(calm.issue(request), { message: 'calm' })
    answers++
    peak = Math.max(peak, process.memoryUsage.rss())
  }
  await assert.rejects(flooding, { message: 'flooded' })
  t.diagnostic(`${answers} answers of the other plugin; RSS grew by ${Math.round((peak - before) / 1e6)} MB`)
  // All have come, and the one below: 50 are lines.
  assert.equal(bench.context.lines.filter(({ message }) => message.startsWith('x x')).length, 50)
  await bench.clock.advance(10_000)
  await bench.line(/^101 more lines of this kind \(info\) in 10 s$/)
  assert.ok(answers > 5 && peak - before < 200_000_000)
})

test('a process ends when the agent disposes its client', async t => {
  const bench = await setUp(t)
  const server = await listening(createServer())
  t.after(() => server.close())
  const client = await bench.open(t, { onCreate: connectTo(server) })
  const [socket] = await once(server, 'connection')
  const gone = once(socket.resume(), 'close')
  await client[Symbol.asyncDispose]()
  await gone
})

function connectTo(server: ReturnType<typeof createServer>): string {
  return `const { connect } = await import('node:net'); connect(${portOf(server)}, '127.0.0.1').on('error', () => {})`
}

test('SIGKILL of the agent ends the process of its plugin', async t => {
  const directory = temporaryFolder(t)
  await chmod(directory, 0o755)
  const server = await listening(createServer())
  t.after(() => server.close())
  await writePluginModule(directory, { onCreate: connectTo(server) })
  const config = {
    ca: { plugin: './acme.mjs' },
    identities: [{ id: 'spiffe://cluster.local/a', socket: 'a.sock' }],
    admin: { address: '127.0.0.1:0' },
  }
  await writeFile(join(directory, 'livery.yaml'), JSON.stringify(config))
  await using agent = new LiveryProcess(['run'], { cwd: directory })
  const [socket] = await Promise.race([
    once(server, 'connection'),
    agent.ended.then(({ code }) => assert.fail(`exit ${code}: ${agent.stderr}`)),
  ])
  const gone = once(socket.on('error', () => {}).resume(), 'close')
  agent.kill('SIGKILL')
  assert.equal((await agent.ended).signal, 'SIGKILL')
  await gone
})
