import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { connect, createServer, type Server, Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { listening, temporaryFolder } from '@livery/test-support'
import { lookup } from './addon.ts'
import { acceptWaiting, disableCoreDumps, readPeerCgroups, readPeerCredentials } from './kernel.ts'

const noNamespace =
  spawnSync('unshare', ['--pid', '--fork', '--mount-proc', 'true']).status === 0
    ? false
    : 'needs root and unshare, for a pid namespace'
const skip = lookup.addon ? process.platform !== 'linux' && 'SO_PEERCRED is of Linux' : lookup.reason

/**
 * The descriptor of a socket. Node has no public way to it: `_handle` is libuv's handle, and undocumented. `-1`, as
 * libuv says it, for one that is closed.
 */
function descriptorOf(socket: Socket | Server): number {
  const handle: unknown = '_handle' in socket ? socket._handle : undefined
  if (typeof handle !== 'object' || handle === null || !('fd' in handle)) return -1
  return typeof handle.fd === 'number' ? handle.fd : -1
}

function read(fd: number) {
  assert.ok(readPeerCredentials)
  return readPeerCredentials(fd)
}

test('the peer of a UNIX socket is the process that connected', { skip }, async context => {
  const path = join(temporaryFolder(context), 'a.sock')
  const server = await listening(createServer(), path)
  const client = spawn(process.execPath, ['-e', 'require("node:net").connect(process.argv[1])', path])
  context.after(() => {
    client.kill()
    server.close()
  })
  const accepted: readonly unknown[] = await once(server, 'connection')
  const socket = accepted[0]
  assert.ok(isSocket(socket))
  assert.deepEqual(read(descriptorOf(socket)), {
    pid: client.pid,
    uid: process.geteuid?.(),
    gid: process.getegid?.(),
  })
  socket.destroy()
})

test('a TCP socket has no peer credentials', { skip }, async () => {
  await using server = await listening(createServer())
  assert.throws(() => read(descriptorOf(server)), { code: 'ENOTCONN', message: /Cannot read the peer/ })
})

test('a descriptor that is not a socket is refused with the code of the system', { skip }, async () => {
  await using file = await open('/dev/null')
  assert.throws(() => read(file.fd), { code: 'ENOTSOCK' })
  assert.throws(() => read(-1), { code: 'EBADF' })
})

test('a number that is not a descriptor is a TypeError, and not descriptor 0', { skip }, () => {
  for (const fd of [Number.NaN, 1.5, 2 ** 32, Number.POSITIVE_INFINITY]) assert.throws(() => read(fd), TypeError)
  // @ts-expect-error: wrong on purpose
  assert.throws(() => read('0'), TypeError)
})

test('connections that wait are accepted together, and no more than asked for', { skip }, async context => {
  assert.ok(acceptWaiting)
  const path = join(temporaryFolder(context), 'a.sock')
  const server = await listening(createServer(), path)
  const clients = Array.from({ length: 5 }, (_, index) => connect(path).end(`${index}`))
  const listener = descriptorOf(server)
  // Nothing is awaited before: libuv itself accepts none of them.
  const accepted = [acceptWaiting(listener, 3), acceptWaiting(listener, 0), acceptWaiting(listener, 9)]
  assert.deepEqual(
    accepted.map(({ descriptors }) => descriptors.length),
    [3, 0, 2],
  )
  assert.deepEqual(acceptWaiting(listener, 9), { descriptors: [] })
  const sockets = accepted.flatMap(({ descriptors }) => descriptors).map(fd => new Socket({ fd }))
  context.after(() => {
    for (const socket of [...clients, ...sockets]) socket.destroy()
    server.close()
  })
  assert.deepEqual(await Promise.all(sockets.map(text)), ['0', '1', '2', '3', '4'])
})

test('nothing is accepted from what does not listen', { skip }, async () => {
  assert.ok(acceptWaiting)
  await using file = await open('/dev/null')
  for (const fd of [file.fd, -1]) assert.deepEqual(acceptWaiting(fd, 9), { descriptors: [] })
})

test('a want of file descriptors is reported with its code, and the connection waits until there is one', {
  skip,
}, async context => {
  const folder = temporaryFolder(context)
  const script = `import { acceptWaiting } from ${JSON.stringify(new URL('./kernel.ts', import.meta.url))}
    import { closeSync, openSync } from 'node:fs'
    import { connect, createServer } from 'node:net'
    const server = createServer().listen(process.argv[1], () => {
      connect(process.argv[1])
      const files = []
      try { for (;;) files.push(openSync('/dev/null')) } catch (error) { if (error.code !== 'EMFILE') throw error }
      const without = acceptWaiting(server._handle.fd, 9)
      closeSync(files[0])
      const { descriptors } = acceptWaiting(server._handle.fd, 1)
      for (const file of files.slice(1)) closeSync(file)
      console.log(JSON.stringify([without, descriptors.length]))
      process.exit()
    })`
  const node = [process.execPath, '--conditions=@livery/source', '--input-type=module', '-e', script]
  const args = ['-c', 'ulimit -n 100; exec "$@"', 'sh', ...node, join(folder, 'a.sock')]
  const { stdout } = await promisify(execFile)('sh', args)
  assert.deepEqual(JSON.parse(stdout), [{ descriptors: [], error: 'EMFILE' }, 1])
})

test('no core file is left once core dumps are disabled', { skip }, async () => {
  const script = `import { disableCoreDumps } from ${JSON.stringify(new URL('./kernel.ts', import.meta.url))}
    import { readFileSync } from 'node:fs'
    disableCoreDumps()
    console.log(readFileSync('/proc/self/limits', 'utf8'))`
  const args = ['--conditions=@livery/source', '--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  assert.match(stdout, /Max core file size +0 +0 /)
})

/** Prints the groups of the peer of its first connection, or the code of the error; then it ends. */
const PRINT_PEER_CGROUPS = `import { readPeerCgroups } from ${JSON.stringify(new URL('./kernel.ts', import.meta.url))}
  import { createServer } from 'node:net'
  createServer(socket => {
    try { console.log(readPeerCgroups(socket._handle.fd)) } catch (error) { console.log(error.code + ': ' + error.message) }
    process.exit()
  }).listen(process.argv[1], () => console.log('listening'))`

test('the control groups of a peer belong to the process that connected', { skip }, async context => {
  const output = await groupsOfPeer(context, [])
  assert.equal(output, await readFile('/proc/self/cgroup', 'utf8'))
})

test('a peer in a pid namespace that cannot be seen has no control groups, and that is said', {
  skip: skip || noNamespace,
}, async context => {
  const output = await groupsOfPeer(context, ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'])
  assert.equal(
    output.trim(),
    'OTHER_PID_NAMESPACE: the process that connected is in a pid namespace that cannot be seen from here',
  )
})

test('a descriptor without a peer has no control groups', { skip }, async () => {
  assert.ok(readPeerCgroups)
  await using file = await open('/dev/null')
  const { fd } = file
  assert.throws(() => readPeerCgroups?.(fd), { code: 'ENOTSOCK' })
  assert.throws(() => readPeerCgroups?.(-1), { code: 'EBADF' })
  assert.throws(() => readPeerCgroups?.(Number.NaN), TypeError)
})

/** The findings about this process of a server in a separate one, started by `prefix`. */
async function groupsOfPeer(context: TestContext, prefix: readonly string[]): Promise<string> {
  const path = join(temporaryFolder(context), 'a.sock')
  const node = [process.execPath, '--conditions=@livery/source', '--input-type=module', '-e', PRINT_PEER_CGROUPS, path]
  const [command = '', ...args] = [...prefix, ...node]
  const server = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  context.after(() => server.kill())
  const [started] = await once(server.stdout, 'data')
  assert.equal(String(started), 'listening\n')
  const output = text(server.stdout)
  const client = connect(path)
  client.on('error', () => {})
  return (await output).replace(/\n$/, '')
}

test('nothing is offered that the addon does not have', () => {
  assert.equal(disableCoreDumps === undefined, lookup.addon === undefined)
  if (process.platform !== 'linux')
    assert.deepEqual([readPeerCredentials, readPeerCgroups, acceptWaiting], Array(3).fill(undefined))
})

function isSocket(value: unknown): value is Socket {
  return typeof value === 'object' && value !== null && 'destroy' in value
}
