/** The operator's token, while somebody else listens in the place of the agent: `livery renew` does not give it away. */
import assert from 'node:assert/strict'
import { chmod, chown, mkdir, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { Command, shellEnvironment } from './command.ts'
import { LiveryProcess, livery } from './livery-process.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const TOKEN = 'secret-of-the-operator'
const NOBODY = 65_534
const skip = process.getuid?.() === 0 ? false : 'only root can start processes of other users'

async function configure(cwd: string, admin: object): Promise<void> {
  await writeFile(join(cwd, 'admin.token'), TOKEN, { mode: 0o600 })
  const config = { ca: { plugin: 'embedded' }, identities: [{ id: WEB, socket: 'run/web.sock' }], drain: '100ms' }
  await writeFile(
    join(cwd, 'livery.yaml'),
    JSON.stringify({ ...config, admin: { tokenFile: 'admin.token', ...admin } }),
  )
}

test('a process on the TCP address of the admin endpoint gets no token', async t => {
  const directory = temporaryFolder(t)
  let headers = ''
  await using impostor = createServer((request, response) => {
    headers = JSON.stringify(request.rawHeaders)
    response.writeHead(403).end('say who you are')
  })
  await listening(impostor)
  await configure(directory, { address: `127.0.0.1:${portOf(impostor)}` })
  const { code, stderr } = await livery(['renew', WEB], { cwd: directory })
  assert.equal(code, 1)
  assert.match(headers, /host/i)
  assert.doesNotMatch(headers, new RegExp(TOKEN))
  assert.match(stderr, /The token was not sent: another program could be .*Make admin\.address a UNIX socket/)
})

test('a process of another user on the admin socket gets no token', { skip }, async t => {
  const directory = temporaryFolder(t)
  const run = join(directory, 'run')
  await configure(directory, { address: 'unix:run/admin.sock' })
  await mkdir(run)
  await chown(run, NOBODY, NOBODY)
  await chmod(directory, 0o711)
  const script = `require('net').createServer(s => s.on('data', d => { console.log('got ' + d); s.end('HTTP/1.1 403 No\\r\\ncontent-length: 0\\r\\n\\r\\n') })).listen('${run}/admin.sock', () => console.log('taken'))`
  await using impostor = new Command(process.execPath, ['-e', script], {
    cwd: '/',
    env: shellEnvironment(),
    uid: NOBODY,
  })
  await impostor.line(/taken/)
  await chown(run, 0, 0)
  const { code, stderr } = await livery(['renew', WEB], { cwd: directory })
  assert.equal(code, 1)
  assert.match(stderr, /the token .* was not sent: uid 65534 listens there, which is neither root nor this user/)
  assert.match(impostor.output, /got PUT/)
  assert.doesNotMatch(impostor.output, new RegExp(TOKEN))
})

/** Answers that it does not know the caller, as an agent without the addon does. */
async function listenAsStranger(path: string) {
  const heads: string[] = []
  let connections = 0
  const server = createServer((request, response) => {
    heads.push(JSON.stringify(request.rawHeaders))
    response.writeHead(403).end('say who you are')
  })
  server.on('connection', () => connections++)
  await listening(server, path)
  return { server, heads, connections: () => connections }
}

test("a link in a user's folder leads the token to no other program of root", { skip }, async t => {
  const directory = temporaryFolder(t)
  const run = join(directory, 'run')
  await configure(directory, { address: 'unix:run/admin.sock' })
  await mkdir(run)
  const other = await listenAsStranger(join(directory, 'other.sock'))
  await using _ = other.server
  await symlink('../other.sock', join(run, 'admin.sock'))
  await chown(run, NOBODY, NOBODY)
  const { code, stderr } = await livery(['renew', WEB], { cwd: directory })
  assert.equal(code, 1)
  assert.doesNotMatch(other.heads.join(), new RegExp(TOKEN))
  assert.match(stderr, /the token of admin\.tokenFile was not sent: .*run \(mode 0755, owner 65534:65534\) belongs to/)
})

test('the token goes over the connection whose other end was checked, to an agent that does not see who asks', async t => {
  const directory = temporaryFolder(t)
  await configure(directory, { address: 'unix:admin.sock' })
  const agent = await listenAsStranger(join(directory, 'admin.sock'))
  await using _ = agent.server
  await livery(['renew', WEB], { cwd: directory })
  const [first = '', second = ''] = agent.heads
  assert.doesNotMatch(first, new RegExp(TOKEN))
  assert.match(second, new RegExp(TOKEN))
  assert.deepEqual([agent.heads.length, agent.connections()], [2, 2])
})

test('the admin socket leaves its folder as the socket beside it needs it', { skip }, async t => {
  const directory = temporaryFolder(t)
  const identities = [{ id: WEB, socket: { path: 'run/web.sock', owner: NOBODY } }]
  await writeFile(join(directory, 'livery.yaml'), JSON.stringify({ ca: { plugin: 'embedded' }, identities }))
  await using agent = new LiveryProcess(['--json', 'run'], { cwd: directory })
  const admin = await agent.admin()
  assert.equal((await stat(join(directory, 'run'))).mode & 0o777, 0o751)
  assert.equal((await stat(admin.replace('unix:', ''))).mode & 0o777, 0o600)
})

test('the agent gets it over its UNIX socket, beside its first socket where nothing else is configured', async t => {
  const cwd = temporaryFolder(t)
  await configure(cwd, {})
  await using agent = new LiveryProcess(['--json', 'run'], { cwd })
  assert.equal(await agent.admin(), `unix:${join(cwd, 'run/admin.sock')}`)
  await agent.line(/"event":"issued"/)
  const { code, stdout, stderr } = await livery(['renew', WEB], { cwd })
  assert.deepEqual([code, stderr], [0, ''])
  assert.match(stdout, /Asking the CA for/)
  await agent.lines(/"event":"issued"/, 2)
})
