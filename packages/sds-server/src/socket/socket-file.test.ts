/** The socket's file on a real file system. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { constants, fstatSync, openSync } from 'node:fs'
import {
  chmod,
  chown,
  lchown,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { shareFolders, systemErrorCode } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { listening, TemporaryFolder } from '@livery/test-support'
import { noSecondUser, readPeerCredentials, runPython, startPython } from '../../test/processes.ts'
import { asSocket } from './accept-connections.ts'
import { SdsServerError, type SdsServerErrorCode } from './sds-server-error.ts'
import { SocketFile, type SocketFileEvent, type SocketFileOptions } from './socket-file.ts'

interface Place {
  readonly path: string
  readonly clock: FakeClock
  readonly events: SocketFileEvent[]
  readonly accepted: Socket[]
  listen(options?: Partial<SocketFileOptions>): Promise<SocketFile>
  /** Lets the file be looked at, as it is every 5 s. */
  look(): Promise<SocketFileEvent>
}

async function makePlace(context: TestContext): Promise<Place> {
  const directory = new TemporaryFolder()
  const path = join(directory.path, 'run', 'sds.sock')
  const clock = new FakeClock()
  const events: SocketFileEvent[] = []
  const accepted: Socket[] = []
  let onEvent: (event: SocketFileEvent) => void = () => {}
  const opened: SocketFile[] = []
  context.after(async () => {
    for (const socket of accepted) socket.destroy()
    for (const socket of opened) await socket.close()
    directory[Symbol.dispose]()
  })
  return {
    path,
    clock,
    events,
    accepted,
    async listen(options) {
      const socket = await SocketFile.listen({
        path,
        clock,
        onArrival: asSocket(connection => accepted.push(connection)),
        onEvent: event => {
          events.push(event)
          onEvent(event)
        },
        ...options,
      })
      opened.push(socket)
      return socket
    },
    async look() {
      const { promise, resolve } = Promise.withResolvers<SocketFileEvent>()
      onEvent = resolve
      await clock.advance(5_000)
      return await promise
    },
  }
}

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o7777).toString(8)
}

async function canConnect(path: string): Promise<boolean> {
  const socket = connect(path)
  const result = Promise.race([once(socket, 'connect').then(() => true), once(socket, 'error').then(() => false)])
  return await result.catch(() => false).finally(() => socket.destroy())
}

/** A socket file without a process behind it, as a killed one leaves it. */
async function leaveStaleSocket(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const server = await listening(createServer(), `${path}.tmp`)
  await rename(`${path}.tmp`, path)
  server.close()
}

async function assertRefused(listening: Promise<unknown>, code: SdsServerErrorCode, ...parts: string[]): Promise<void> {
  await assert.rejects(listening, error => {
    assert.ok(error instanceof SdsServerError)
    assert.equal(error.code, code)
    for (const part of parts) assert.ok(error.message.includes(part), `${error.message} does not say ${part}`)
    return true
  })
}

test('the folder of a socket for everybody lets them through, whatever the umask, and also when it has vanished', async t => {
  const place = await makePlace(t)
  const modeOfFolder = async () => ((await stat(dirname(place.path))).mode & 0o7777).toString(8)
  const umask = process.umask(0o077)
  t.after(() => process.umask(umask))
  await place.listen({ mode: 0o666 })
  assert.equal(await modeOfFolder(), '751')

  await rm(dirname(place.path), { recursive: true })
  assert.equal((await place.look()).kind, 'socket-recreated')
  assert.equal(await modeOfFolder(), '751')
})

test('the socket appears with its mode, in a directory that is made for it, and nothing else is left there', async t => {
  const place = await makePlace(t)
  const before = process.umask(0)
  await place.listen().finally(() => process.umask(before))
  const deeper = join(dirname(place.path), 'a', 'b', 's')
  await (await place.listen({ path: deeper })).close()
  await rm(join(dirname(place.path), 'a'), { recursive: true })
  assert.equal(await modeOf(place.path), '660')
  assert.equal(await modeOf(dirname(place.path)), '750')
  assert.deepEqual(await readdir(dirname(place.path)), ['sds.sock'])
  assert.ok(await canConnect(place.path))
})

test('mode, owner and group follow the options, whatever the umask is', async t => {
  const place = await makePlace(t)
  const before = process.umask(0o777)
  const uid = process.getuid?.() ?? 0
  const owner = uid === 0 ? 65_534 : uid
  await place.listen({ mode: 0o606, owner, group: process.getgid?.() ?? 0 }).finally(() => process.umask(before))
  assert.equal(await modeOf(place.path), '606')
  assert.equal((await stat(place.path)).uid, owner)
})

test('a directory that is there keeps its mode', async t => {
  const place = await makePlace(t)
  await mkdir(dirname(place.path), { mode: 0o711 })
  await place.listen()
  assert.equal(await modeOf(dirname(place.path)), '711')
})

test('the socket of a killed process is replaced', async t => {
  const place = await makePlace(t)
  await leaveStaleSocket(place.path)
  assert.ok(!(await canConnect(place.path)))
  await place.listen()
  assert.ok(await canConnect(place.path))
})

test('a live owner is respected', async t => {
  const place = await makePlace(t)
  await place.listen()
  const { ino } = await lstat(place.path)
  await assertRefused(place.listen(), 'live-owner', place.path, 'another program', 'choose another path')
  assert.equal((await lstat(place.path)).ino, ino)
})

test('of two that start at the same moment one wins', async t => {
  const place = await makePlace(t)
  const settled = await Promise.allSettled([place.listen(), place.listen()])
  const failures = settled.filter(result => result.status === 'rejected')
  assert.equal(failures.length, 1)
  assert.ok(failures[0]?.reason instanceof SdsServerError && failures[0].reason.code === 'live-owner')
  assert.ok(await canConnect(place.path))
})

test('a successor that takes over keeps its file when the predecessor closes', async t => {
  const place = await makePlace(t)
  const predecessor = await place.listen()
  await place.listen({ takeover: true })
  assert.deepEqual(await place.look(), { kind: 'socket-superseded', path: place.path })
  assert.equal(predecessor.state, 'superseded')
  await predecessor.close()
  assert.ok(await canConnect(place.path))
})

test('the path is taken back from a successor that failed, which had got it, live or gone', async t => {
  const place = await makePlace(t)
  const predecessor = await place.listen()
  for (const isLive of [true, false]) {
    const successor = await place.listen({ takeover: true })
    assert.deepEqual(await place.look(), { kind: 'socket-superseded', path: place.path })
    if (!isLive) await successor.close()
    await predecessor.reclaim()
    assert.deepEqual(place.events.at(-1), { kind: 'socket-recreated', path: place.path })
    assert.equal(predecessor.state, 'listening')
    const accepted = place.accepted.length
    assert.ok(await canConnect(place.path))
    assert.equal(place.accepted.length, accepted + 1)
    await successor.close()
    assert.ok(await canConnect(place.path))
  }
  await rm(place.path)
  assert.deepEqual(await place.look(), { kind: 'socket-recreated', path: place.path }, 'it is watched again')
})

test('a path that was left to a process which then ends is taken again', async t => {
  const place = await makePlace(t)
  const first = await place.listen()
  const other = await place.listen({ takeover: true })
  assert.deepEqual(await place.look(), { kind: 'socket-superseded', path: place.path })
  await other.close()
  assert.deepEqual(await place.look(), { kind: 'socket-recreated', path: place.path })
  assert.equal(first.state, 'listening')
  assert.ok(await canConnect(place.path))
})

test('the file is removed on closing, once, and closing again changes nothing', async t => {
  const place = await makePlace(t)
  const socket = await place.listen()
  await socket.close()
  assert.deepEqual(await readdir(dirname(place.path)), [])
  await place.listen()
  await socket.close()
  assert.ok(await canConnect(place.path))
})

test('a file, a directory, a link or a pipe at the path is left alone', async t => {
  const place = await makePlace(t)
  const { path } = place
  await mkdir(dirname(path))
  await writeFile(path, 'precious')
  await assertRefused(place.listen(), 'not-a-socket', path, 'a file', 'choose another path')
  await assertRefused(place.listen({ takeover: true }), 'not-a-socket')
  assert.equal(await readFile(path, 'utf8'), 'precious')

  await rename(path, `${path}.file`)
  await symlink(`${path}.file`, path)
  await assertRefused(place.listen(), 'not-a-socket', 'a symbolic link')
  await rm(path)
  await mkdir(path)
  await assertRefused(place.listen(), 'not-a-socket', 'a directory')
  await rm(path, { recursive: true })
  await leaveStaleSocket(`${path}.stale`)
  await symlink(`${path}.stale`, path)
  await assertRefused(place.listen(), 'not-a-socket', 'a symbolic link')
})

test('a path of 107 bytes works, however long its directory is, and one of 108 is refused', async t => {
  const place = await makePlace(t)
  const root = `${dirname(place.path)}/`
  const path = root + 'x'.repeat(107 - root.length)
  for (const each of [path, `${root + 'd'.repeat(105 - root.length)}/s`]) {
    assert.equal(each.length, 107)
    const socket = await place.listen({ path: each })
    assert.ok(await canConnect(each))
    assert.deepEqual(await readdir(dirname(each)), [basename(each)])
    await socket.close()
  }
  await assertRefused(place.listen({ path: `${path}y` }), 'path-too-long', `${path}y`, '108 bytes', '107')
})

test('a directory that cannot be made or written is refused with who tried and what it is like', async t => {
  const place = await makePlace(t)
  await writeFile(dirname(place.path), '')
  for (const path of [place.path, join(place.path, 'deeper', 'sds.sock'), '/proc/none/sds.sock']) {
    await assertRefused(place.listen({ path }), 'bind-failed', path, `uid ${process.getuid?.()}`)
  }
})

for (const mode of [0o777, 0o1777, 0o757, 0o2777])
  test(`a directory of mode ${mode.toString(8)} is refused, own or not: others could replace the socket`, async t => {
    const place = await makePlace(t)
    const directory = dirname(place.path)
    await mkdir(directory)
    await chmod(directory, mode)
    const octal = mode.toString(8).padStart(4, '0')
    await assertRefused(
      place.listen(),
      'unsafe-directory',
      place.path,
      `${directory} (mode ${octal}`,
      'written by others',
    )
    // A file that the agent makes in a sticky folder is its own.
    if (mode !== 0o1777)
      await assertRefused(place.listen({ path: `${directory}/a/s` }), 'unsafe-directory', directory, 'others')
    assert.deepEqual(await readdir(directory), [])
  })

test('a directory of another user is refused, whatever its mode', { skip: noSecondUser }, async t => {
  const place = await makePlace(t)
  const directory = dirname(place.path)
  await mkdir(directory)
  await chown(directory, 65_534, 65_534)
  for (const mode of [0o700, 0o755, 0o775, 0o757, 0o1777]) {
    await chmod(directory, mode)
    await assertRefused(place.listen(), 'unsafe-directory', directory, mode.toString(8), '65534')
  }
  await chown(directory, 0, 0)
  await chmod(directory, 0o755)
  await place.listen()
})

const TAKE_THE_PATH = `
import os, socket, sys
path = sys.argv[1]
server = socket.socket(socket.AF_UNIX)
server.bind(path + '.evil')
os.chmod(path + '.evil', 0o666)
server.listen()
os.rename(path + '.evil', path)
print('taken', flush=True)
while True:
    connection, _ = server.accept()
    connection.close()
`

/** An agent whose folder is shared with another user, who has replaced the agent's socket. */
async function loseToAnother(t: TestContext, options: Partial<SocketFileOptions> = {}): Promise<Place> {
  const place = await makePlace(t)
  const directory = dirname(place.path)
  await mkdir(directory)
  for (const [path, mode] of [
    [dirname(directory), 0o755],
    [directory, 0o777],
  ] as const)
    await chmod(path, mode)
  shareFolders([directory])
  t.after(() => shareFolders([]))
  await place.listen(options)
  const { stop } = await startPython(TAKE_THE_PATH, [place.path], { asNobody: true })
  t.after(stop)
  assert.equal((await stat(place.path)).uid, 65_534)
  return place
}

for (const [how, options] of [
  ['by its credentials', { readPeerCredentials }],
  ['without credentials, by the owner of its file', {}],
] as const)
  test(`a path that another user has taken is taken back: the thief is known ${how}`, {
    skip: noSecondUser,
  }, async t => {
    const place = await loseToAnother(t, options)
    const event = await place.look()
    assert.ok(event.kind === 'socket-reclaimed')
    assert.match(event.from, /uid 65534/)
    assert.equal((await stat(place.path)).uid, 0)
    assert.ok(await canConnect(place.path))
    assert.equal(place.accepted.length, 1, 'the client is ours again')
    assert.deepEqual(await readdir(dirname(place.path)), ['sds.sock'])
  })

for (const [what, put] of [
  ['a link to another socket', (path: string) => symlink(`${path}.evil`, path)],
  ['a file', (path: string) => writeFile(path, '')],
] as const)
  test(`a path in whose place another user has put ${what} is taken back`, { skip: noSecondUser }, async t => {
    const place = await makePlace(t)
    await place.listen({ readPeerCredentials })
    await rm(place.path)
    await put(place.path)
    await lchown(place.path, 65_534, 65_534)
    const event = await place.look()
    assert.ok(event.kind === 'socket-reclaimed')
    assert.match(event.from, /uid 65534/)
    assert.ok(await canConnect(place.path))
    assert.deepEqual(await readdir(dirname(place.path)), ['sds.sock'])
  })

test('two sockets of one process whose paths somebody has exchanged are each taken back', async t => {
  const place = await makePlace(t)
  const other = join(dirname(place.path), 'other.sock')
  const accepted: string[] = []
  for (const path of [place.path, other])
    await place.listen({
      path,
      readPeerCredentials,
      onArrival: asSocket(socket => accepted.push(path) && socket.destroy()),
    })
  await rename(place.path, `${place.path}.tmp`)
  await rename(other, place.path)
  await rename(`${place.path}.tmp`, other)
  await place.look()
  while (place.events.length < 2) await place.clock.advance(0)
  assert.ok(place.events.every(({ kind }) => kind === 'socket-recreated'))
  accepted.length = 0
  for (const path of [place.path, other]) assert.ok(await canConnect(path))
  while (accepted.length < 2) await place.clock.advance(0)
  assert.deepEqual(accepted.toSorted(), [place.path, other].toSorted())
})

test('a thief that gives its file away is known by the credentials', { skip: noSecondUser }, async t => {
  const place = await loseToAnother(t, { readPeerCredentials })
  await chown(place.path, 0, 0)
  assert.equal((await place.look()).kind, 'socket-reclaimed')
})

test('the path is taken back in a folder that was opened to all since the start, and that is reported', {
  skip: noSecondUser,
}, async t => {
  const place = await loseToAnother(t, { readPeerCredentials })
  shareFolders([])
  assert.equal((await place.look()).kind, 'socket-folder-unsafe')
  while (place.events.length < 2) await place.clock.advance(0)
  assert.equal(place.events[1]?.kind, 'socket-reclaimed')
  assert.equal((await stat(place.path)).uid, 0)
})

test('in another folder, which somebody has put in the place of the safe one, no socket is made', {
  skip: noSecondUser,
}, async t => {
  const place = await makePlace(t)
  const directory = dirname(place.path)
  await place.listen({ readPeerCredentials })
  await rename(directory, `${directory}.away`)
  await mkdir(directory)
  await chown(directory, 65_534, 65_534)
  const event = await place.look()
  assert.ok(event.kind === 'socket-lost' && event.error instanceof SdsServerError)
  assert.equal(event.error.code, 'unsafe-directory')
  assert.deepEqual(await readdir(directory), [])
})

test('a file that vanishes is made again, and connections continue', async t => {
  const place = await makePlace(t)
  const socket = await place.listen()
  const client = connect(place.path)
  await once(client, 'connect')
  await rm(dirname(place.path), { recursive: true })
  assert.deepEqual(await place.look(), { kind: 'socket-recreated', path: place.path })
  assert.equal(socket.state, 'listening')
  assert.ok(await canConnect(place.path))
  assert.equal(await modeOf(place.path), '660')
  place.accepted[0]?.write('still here')
  const [data] = await once(client, 'data')
  assert.equal(String(data), 'still here')
  client.destroy()
  await socket.close()
  assert.deepEqual(await readdir(dirname(place.path)), [])
})

test('a file that cannot be made again is reported, and tried again', async t => {
  const place = await makePlace(t)
  const socket = await place.listen()
  await rm(place.path)
  await mkdir(place.path)
  const lost = await place.look()
  assert.equal(lost.kind, 'socket-lost')
  assert.ok('error' in lost && lost.error instanceof SdsServerError)
  await rm(place.path, { recursive: true })
  assert.equal((await place.look()).kind, 'socket-recreated')
  assert.ok(await canConnect(place.path))
  await socket.close()
})

test('a dead socket that was put in its place is replaced', async t => {
  const place = await makePlace(t)
  await place.listen()
  await leaveStaleSocket(place.path)
  assert.equal((await place.look()).kind, 'socket-recreated')
  assert.ok(await canConnect(place.path))
})

test('a socket that is there is looked at in quiet, also after it was touched', async t => {
  const place = await makePlace(t)
  await place.listen()
  const { ino } = await lstat(place.path)
  await chmod(place.path, 0o600)
  for (let i = 0; i < 3; i++) {
    await place.clock.advance(5_000)
    await place.clock.waitForDeadline(() => true)
  }
  assert.deepEqual(place.events, [])
  assert.equal((await lstat(place.path)).ino, ino)
})

test('a shortage of descriptors is reported with its code and the remedy, once in ten seconds', async t => {
  const place = await makePlace(t)
  let error: string | undefined
  let asked = () => {}
  const acceptWaiting = () => {
    asked()
    return error === undefined ? { descriptors: [] } : { descriptors: [], error }
  }
  await place.listen({ acceptWaiting })
  const connectAfter = async (ms: number, code: string | undefined) => {
    error = code
    await place.clock.advance(ms)
    const { promise, resolve } = Promise.withResolvers<void>()
    asked = resolve
    assert.ok(await canConnect(place.path))
    await promise
  }
  await connectAfter(0, 'EMFILE')
  await connectAfter(9_999, 'EMFILE')
  await connectAfter(1, 'ENFILE')
  await connectAfter(10_000, undefined)
  await connectAfter(0, 'ENOMEM')
  const reported = failuresIn(place)
  assert.deepEqual(reported.map(systemErrorCode), ['EMFILE', 'ENFILE', 'ENOMEM'])
  assert.match(String(reported[0]), /sds\.sock: the process has no file descriptor left.*LimitNOFILE=/)
})

test('a failure of one connection is reported, and does not affect those that came with it', async t => {
  const place = await makePlace(t)
  const pipe = join(dirname(dirname(place.path)), 'pipe')
  execFileSync('mkfifo', [pipe])
  const openPipe = () => openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK)
  // No socket can be made of a file.
  const file = openSync('/dev/null', 'r')
  const descriptors = [openPipe(), file, openPipe()]
  const { promise: isFileOpen, resolve } = Promise.withResolvers<boolean>()
  const onConnection = (socket: Socket) => {
    place.accepted.push(socket)
    if (place.accepted.length === 3) resolve(isOpen(file))
    else throw new Error(`bug ${place.accepted.length}`)
  }
  await place.listen({
    acceptWaiting: () => ({ descriptors: descriptors.splice(0) }),
    onArrival: asSocket(onConnection),
  })
  assert.ok(await canConnect(place.path))
  assert.equal(await isFileOpen, false)
  assert.deepEqual(
    place.accepted.map(socket => socket.destroyed),
    [true, true, false],
  )
  assert.deepEqual(failuresIn(place).map(String), ['Error: bug 1'])
})

function failuresIn(place: Place): readonly unknown[] {
  return place.events.map(event => (event.kind === 'accept-failed' ? event.error : event.kind))
}

function isOpen(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isCharacterDevice()
  } catch {
    return false
  }
}

const CONNECT_TO_ALL = `
import glob, os, socket, sys, time
directory, control = sys.argv[1:]
def connects(path):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(path); return True
    except OSError: return False
assert connects(control), 'the control socket cannot be reached'
print('ready', flush=True)
count = 0
while not os.path.exists(os.path.join(directory, 'stop')):
    paths = glob.glob(directory + '/*.sock') + glob.glob(directory + '/.*/*')
    count += sum(connects(p) for p in paths)
print(count)
`

test('at no moment can another user connect to a socket of mode 0600', { skip: noSecondUser }, async t => {
  const place = await makePlace(t)
  const directory = dirname(place.path)
  await mkdir(directory)
  for (const each of [directory, dirname(directory)]) await chmod(each, 0o755)
  const control = join(directory, 'control')
  await place.listen({ path: control, mode: 0o666 })
  const { promise: ready, resolve } = Promise.withResolvers<string>()
  const output = runPython(CONNECT_TO_ALL, [directory, control], { asNobody: true, onOutput: resolve })
  assert.equal((await Promise.race([ready, output])).trim(), 'ready')
  const before = process.umask(0)
  for (let i = 0; i < 100; i++) await (await place.listen({ mode: 0o600 })).close()
  process.umask(before)
  await writeFile(join(directory, 'stop'), '')
  assert.equal(await output, 'ready\n0')
})
