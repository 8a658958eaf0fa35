/** `livery wait` with the program as its users start it. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { readPeerCredentials } from '@livery/native-keygen'
import { listening, temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from './livery-process.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const CONFIG = `ca: { plugin: embedded }
admin: { address: "127.0.0.1:0" }
drain: 100ms
identities: [{ id: ${WEB}, socket: run/web.sock }]
`

test('a wait that begins before the agent ends when the agent serves', async t => {
  const cwd = temporaryFolder(t)
  await writeFile(join(cwd, 'livery.yaml'), CONFIG)
  const socket = join(cwd, 'run/web.sock')
  await using any = new LiveryProcess(['wait', '--socket', 'run/web.sock'], { cwd })
  await using named = new LiveryProcess(['wait', '--socket', socket, '--name', 'default', '--json'], { cwd })
  await using agent = new LiveryProcess(['run'], { cwd })
  assert.deepEqual([await any.ended, any.stdout, any.stderr], [{ code: 0, signal: null }, `${socket} answers\n`, ''])
  assert.equal((await named.ended).code, 0, named.stderr)
  assert.deepEqual(JSON.parse(named.stdout), { socket, name: 'default' })

  const unknown = await livery(['wait', '--socket', socket, '--name', `${WEB}2`, '--timeout', '2s'], { cwd })
  assert.equal(unknown.code, 1)
  assert.match(unknown.stderr, /run\/web\.sock does not serve "spiffe:.*web2" to uid \d+: .*Run: livery explain/)
  assert.equal(agent.child.exitCode, null)
})

test('after the timeout it fails, with the reason and a remedy', async t => {
  const cwd = temporaryFolder(t)
  const wait = (...args: readonly string[]) => livery(['wait', '--timeout', '300ms', ...args], { cwd })
  const absent = await wait('--socket', 'none.sock')
  assert.deepEqual([absent.code, absent.stdout], [1, ''])
  assert.match(absent.stderr, /none\.sock did not answer: there is no such socket\. Start "livery run", or mount/)

  const server = createServer(socket => socket.destroy())
  await listening(server, join(cwd, 'mute.sock'))
  const mute = await wait('--socket', 'mute.sock')
  server.close()
  assert.equal(mute.code, 1)
  assert.match(mute.stderr, /refuses uid \d+, or does not speak gRPC\. Look at callers/)

  await writeFile(join(cwd, 'file'), '')
  assert.match((await wait('--socket', 'file')).stderr, /nobody listens on it\. Start "livery run"/)
})

test('a socket that does not let in its user is not ready, also where it says so to every call', {
  skip: readPeerCredentials ? false : 'no addon to distinguish callers',
}, async t => {
  const cwd = temporaryFolder(t)
  const other = (process.getuid?.() ?? 0) + 1
  const socket = `{ path: run/web.sock, callers: [{ uid: ${other} }] }`
  await writeFile(join(cwd, 'livery.yaml'), CONFIG.replace('run/web.sock', socket))
  await using agent = new LiveryProcess(['run'], { cwd })
  await agent.admin()
  const { code, stderr } = await livery(['wait', '--socket', 'run/web.sock'], { cwd })
  assert.equal(code, 1)
  assert.match(stderr, /refuses uid \d+, or does not speak gRPC\. Look at callers/)
})

test('wrong usage is exit 2', async t => {
  const cwd = temporaryFolder(t)
  const none = await livery(['wait'], { cwd })
  assert.deepEqual([none.code, none.stdout], [2, ''])
  assert.match(none.stderr, /required option '--socket <path>' not specified/)
  const timeout = await livery(['wait', '--socket', 's', '--timeout', 'soon'], { cwd })
  assert.equal(timeout.code, 2)
  assert.match(timeout.stderr, /--timeout "soon" is not a duration of at most 24h\. Write such as 60s/)
  assert.match((await livery(['wait', '--help'], { cwd })).stdout, /--socket <path>.*--name <name>.*--timeout/s)
})
