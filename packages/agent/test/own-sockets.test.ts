/** The own sockets of identities, given to workloads of other users: real sockets, real users. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { chmod, mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { readPeerCredentials } from '@livery/native-keygen'
import { temporaryFolder } from '@livery/test-support'
import { asUser } from './launchers.ts'
import { LiveryProcess } from './livery-process.ts'
import { openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
/** Envoy's user in Istio's sidecar. */
const PROXY = 1_337
const STRANGER = 12_345
/** The user of the container image. */
const AGENT = 15_100
const GROUP = 2_000
const FETCH = fileURLToPath(new URL('fetch-secrets.ts', import.meta.url))

const skip =
  process.geteuid?.() === 0 && spawnSync('setpriv', ['--version']).status === 0
    ? false
    : 'needs root and setpriv, to connect as other users'
const skipCallers = skip || (readPeerCredentials ? false : 'needs the addon, to distinguish callers')

const run = promisify(execFile)

/** As the user `uid`, whose primary group is `gid`. */
async function fetchAs(uid: number, gid: number, socket: string, ...names: readonly string[]): Promise<string> {
  const user = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups']
  const program = [process.execPath, '--conditions=@livery/source', FETCH, socket, ...names]
  const { stdout } = await run('setpriv', [...user, ...program], { cwd: '/' })
  return stdout.trim()
}

interface Started {
  readonly cwd: string
  readonly agent: LiveryProcess
  write(config: object): Promise<void>
}

async function start(t: TestContext, config: object, uid?: number): Promise<Started> {
  const cwd = temporaryFolder(t)
  await chmod(cwd, 0o755)
  const write = (changed: object): Promise<void> => {
    const whole = { ca: { plugin: 'embedded' }, admin: { address: '127.0.0.1:0' }, drain: '100ms', ...changed }
    return writeFile(join(cwd, 'livery.yaml'), JSON.stringify(whole), { mode: 0o644 })
  }
  await write(config)
  if (uid !== undefined) {
    await mkdir(join(cwd, 'run'))
    await chmod(join(cwd, 'run'), 0o777)
  }
  const agent = new LiveryProcess(['run'], { cwd, ...(uid !== undefined && { uid }) })
  t.after(() => agent[Symbol.asyncDispose]())
  return { cwd, agent, write }
}

test('the own socket of an identity is given to the user of its workload, and to nobody else', { skip }, async t => {
  const identities = [{ id: WEB, socket: { path: 'run/web.sock', owner: PROXY, mode: '0600' } }]
  const { cwd, agent } = await start(t, { identities })
  await agent.admin()
  const socket = join(cwd, 'run/web.sock')
  const { uid, gid, mode } = await stat(socket)
  assert.deepEqual([uid, gid, mode & 0o777], [PROXY, process.getegid?.(), 0o600])
  assert.equal(await fetchAs(PROXY, PROXY, socket, 'default'), 'default with key')
  assert.match(await fetchAs(STRANGER, STRANGER, socket, 'default'), /refused: .*EACCES/)
})

test('without owner and group an own socket stays 0660 of the agent, which other users cannot open', {
  skip,
}, async t => {
  const { cwd, agent } = await start(t, { identities: [{ id: WEB, socket: { path: 'run/web.sock' } }] })
  await agent.admin()
  const { uid, mode } = await stat(join(cwd, 'run/web.sock'))
  assert.deepEqual([uid, mode & 0o777, (await stat(join(cwd, 'run'))).mode & 0o777], [0, 0o660, 0o750])
  assert.match(await fetchAs(PROXY, PROXY, join(cwd, 'run/web.sock'), 'default'), /refused: .*EACCES/)
})

test('each identity of a range has its own socket under its name, with callers by group', {
  skip: skipCallers,
}, async t => {
  const socket = { path: 'run/{name}/sds.sock', mode: '0666', group: GROUP, callers: [{ gid: GROUP }] }
  const identities = [{ range: 'spiffe://cluster.local/ns/default/sa/pod-{8..10}', socket }]
  const { cwd, agent } = await start(t, { identities })
  await agent.admin()
  for (const name of ['pod-8', 'pod-9', 'pod-10']) {
    const own = `spiffe://cluster.local/ns/default/sa/${name}`
    const path = join(cwd, 'run', name, 'sds.sock')
    assert.equal(await fetchAs(PROXY, GROUP, path, 'default', own, WEB), `default with key, ${own} with key`)
  }
  assert.match(await fetchAs(STRANGER, STRANGER, join(cwd, 'run/pod-8/sds.sock'), 'default'), /^refused: /)
  await agent.line(/"event":"connection-refused".*"gid":12345.*"reason":"not-allowed"/)
})

test('callers of an own socket change at once, its mode by opening it again', { skip: skipCallers }, async t => {
  const own = { path: 'run/web.sock', mode: '0666', owner: PROXY }
  const withSocket = (socket: object) => ({ identities: [{ id: WEB, socket: { ...own, ...socket } }] })
  const { cwd, agent, write } = await start(t, withSocket({ callers: [{ uid: PROXY }] }))
  await agent.admin()
  const socket = join(cwd, 'run/web.sock')
  assert.match(await fetchAs(STRANGER, STRANGER, socket, 'default'), /^refused: /)
  await write(withSocket({ callers: [{ uid: STRANGER }] }))
  await agent.line(/"msg":"reloaded: 1 socket changed"/)
  assert.equal(await fetchAs(STRANGER, STRANGER, socket, 'default'), 'default with key')
  assert.match(await fetchAs(PROXY, PROXY, socket, 'default'), /^refused: /)
  await write(withSocket({ mode: '0600', callers: [{ uid: STRANGER }] }))
  await agent.line(/"msg":"reloaded: 1 socket opened, 1 closed"/)
  assert.equal((await stat(socket)).mode & 0o777, 0o600)
})

test('a user who loses an own socket loses the streams on it at once, whatever the drain time', {
  skip,
  timeout: 30_000,
}, async t => {
  const withOwner = (owner: number) => ({
    identities: [{ id: WEB, socket: { path: 'run/web.sock', owner, mode: '0600' } }],
    drain: '1h',
  })
  const { cwd, agent, write } = await start(t, withOwner(PROXY))
  await agent.admin()
  using stream = await openStream(join(cwd, 'run/web.sock'), ['default'])
  await write(withOwner(STRANGER))
  const UNAVAILABLE = 14
  assert.equal(await stream.ended, UNAVAILABLE)
  assert.equal(stream.answers.length, 1)
})

test('an owner that the agent cannot give a socket to is refused with what it can do', { skip }, async t => {
  const identities = [{ id: WEB, socket: { path: 'run/own/web.sock', owner: PROXY } }]
  const { cwd, agent } = await start(t, { identities, sharedFolders: ['run'] }, 65_534)
  assert.equal((await agent.ended).code, 1)
  assert.match(
    agent.stderr,
    /web\.sock as uid 65534: the kernel refused to give the socket to owner 1337 \(EPERM\); only root/,
  )
  await assert.rejects(stat(join(cwd, 'run/own/web.sock')), { code: 'ENOENT' })
})

test('a folder that keeps the owner of a socket out is reported with the remedy, which lets it in', {
  skip,
}, async t => {
  const identities = [{ id: WEB, socket: { path: 'run/web.sock', owner: PROXY } }]
  const sockets = [{ path: 'run/sds.sock', allow: [WEB] }]
  const { cwd, agent } = await start(t, { identities, sockets })
  await agent.admin()
  const [socket, folder] = [join(cwd, 'run/web.sock'), join(cwd, 'run')]
  const warned = await agent.line(/"event":"socket-unreachable"/)
  assert.match(
    warned,
    new RegExp(
      `uid ${PROXY} cannot pass ${folder} \\(mode 0750, .*unless it is in group .*Run .*chmod o\\+x ${folder}`,
    ),
  )
  assert.match(await fetchAs(PROXY, PROXY, socket, 'default'), /refused: .*EACCES/)
  await run('chmod', ['o+x', folder])
  assert.equal(await fetchAs(PROXY, PROXY, socket, 'default'), 'default with key')
})

test('an agent that is not root gives sockets away with CHOWN, and has them again after a crash with DAC_OVERRIDE', {
  skip,
}, async t => {
  const cwd = temporaryFolder(t)
  await chmod(cwd, 0o755)
  // As kubelet makes the folder of a hostPath.
  await mkdir(join(cwd, 'run'), { mode: 0o755 })
  const identities = [{ id: WEB, socket: { path: 'run/web.sock', owner: PROXY, mode: '0600' } }]
  const config = { ca: { plugin: 'embedded', directory: 'run/ca' }, identities, admin: { address: '127.0.0.1:0' } }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const launch = (...capabilities: readonly string[]) => {
    const agent = new LiveryProcess(['run'], { cwd, launcher: asUser(AGENT, ...capabilities) })
    t.after(() => agent[Symbol.asyncDispose]())
    return agent
  }
  const socket = join(cwd, 'run/web.sock')
  const first = launch('chown', 'dac_override')
  await first.admin()
  assert.equal(await fetchAs(PROXY, PROXY, socket, 'default'), 'default with key')
  first.kill('SIGKILL')
  await first.ended
  // It cannot see that nobody listens on a socket that is not its own.
  const second = launch('chown')
  assert.notEqual((await second.ended).code, 0)
  assert.match(second.stderr, /web\.sock.*: another program/)
  const third = launch('chown', 'dac_override')
  await third.admin()
  assert.equal(await fetchAs(PROXY, PROXY, socket, 'default'), 'default with key')
  assert.equal((await stat(socket)).uid, PROXY)
})
