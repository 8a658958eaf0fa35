/** The agent continues, and ends at SIGTERM, whatever happened to the reader of its log. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, existsSync, openSync, watch, writeSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const DRAIN_MS = 200
/** Ending takes no longer than draining and a second; the machine may be busy. */
const END_MS = DRAIN_MS + 1_000 + 1_500

interface Started {
  readonly agent: LiveryProcess
  readonly socket: string
}

async function start(cwd: string, stderr: number | Socket | undefined, config: object = {}): Promise<Started> {
  const run = join(cwd, 'run')
  const admin = await freeAddress()
  await mkdir(run, { mode: 0o750 })
  const settings = {
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [{ id: WEB, socket: 'run/web.sock' }],
    sockets: [{ path: 'run/sds.sock', allow: [WEB] }],
    admin: { address: admin },
    drain: `${DRAIN_MS}ms`,
    ...config,
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(settings))
  const agent = new LiveryProcess(['run'], { cwd, ...(stderr !== undefined && { stderr }) })
  const socket = join(run, 'web.sock')
  await until(run, () => existsSync(socket))
  await untilStarted(admin)
  return { agent, socket }
}

async function freeAddress(): Promise<string> {
  const server = await listening(createServer())
  const port = portOf(server)
  server.close()
  await once(server, 'close')
  return `127.0.0.1:${port}`
}

/** The log cannot say that it has started: nobody reads it. A signal before that ends it with another code. */
async function untilStarted(admin: string): Promise<void> {
  for (;;) {
    // It is alive before that: the admin endpoint answers while the agent still starts.
    const answer = await fetch(`http://${admin}/healthz/ready`).catch(() => undefined)
    if (answer?.ok) return
  }
}

/** Resolves when a change in the folder made `condition` true. */
async function until(folder: string, condition: () => boolean): Promise<void> {
  const watcher = watch(folder)
  try {
    while (!condition()) await once(watcher, 'change')
  } finally {
    watcher.close()
  }
}

/** It serves, so that its event loop is free, and ends in time. */
async function endsInTime({ agent, socket }: Started): Promise<void> {
  const [secret] = await fetchSecrets(socket, ['default'])
  assert.equal(secret?.name, 'default')
  const signalled = performance.now()
  agent.kill('SIGTERM')
  assert.deepEqual(await agent.ended, { code: 0, signal: null })
  const took = performance.now() - signalled
  assert.ok(took < END_MS, `it took ${took} ms`)
}

interface Pipe {
  readonly writeEnd: number
  /** The only end to read from: no process inherits it. */
  readonly readEnd: number
}

function makePipe(t: TestContext, cwd: string): Pipe {
  const path = join(cwd, 'pipe')
  assert.equal(spawnSync('mkfifo', [path]).status, 0)
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writeEnd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
  t.after(() => closeSync(writeEnd))
  return { readEnd, writeEnd }
}

function fill(handle: number): void {
  try {
    while (true) writeSync(handle, 'x'.repeat(4096))
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'EAGAIN')
  }
}

for (const format of ['json', 'pretty'])
  test(`a pipe whose reader has gone, as ${format}`, async t => {
    const directory = temporaryFolder(t)
    const pipe = makePipe(t, directory)
    const started = await start(directory, pipe.writeEnd, { log: { format } })
    await using _ = started.agent
    closeSync(pipe.readEnd)
    await endsInTime(started)
  })

for (const format of ['json', 'pretty'])
  test(`a pipe that is full, since its reader is stopped, as ${format}`, async t => {
    const directory = temporaryFolder(t)
    const pipe = makePipe(t, directory)
    fill(pipe.writeEnd)
    const started = await start(directory, pipe.writeEnd, { log: { format } })
    await using _ = started.agent
    await endsInTime(started)
  })

test('a pipe that was full when its reader went', async t => {
  const directory = temporaryFolder(t)
  const pipe = makePipe(t, directory)
  fill(pipe.writeEnd)
  const started = await start(directory, pipe.writeEnd)
  await using _ = started.agent
  await fetchSecrets(started.socket, ['default'])
  closeSync(pipe.readEnd)
  started.agent.kill('SIGTERM')
  assert.deepEqual(await started.agent.ended, { code: 0, signal: null })
})

test('a socket whose reader has gone', async t => {
  const started = await start(temporaryFolder(t), undefined)
  await using _ = started.agent
  started.agent.child.stderr?.destroy()
  await endsInTime(started)
})

test('a socket that is full, since its reader is stopped', async t => {
  const directory = temporaryFolder(t)
  const server = await listening(createServer({ pauseOnConnect: true }), join(directory, 'journal'))
  const accepted: Promise<[Socket]> = once(server, 'connection') as Promise<[Socket]>
  const journal = connect(join(directory, 'journal'))
  const [reader] = await accepted
  t.after(() => {
    journal.destroy()
    reader.destroy()
    server.close()
  })
  journal.write('x'.repeat(1024 * 1024))
  assert.ok(journal.writableLength > 0)
  const started = await start(directory, journal)
  await using _ = started.agent
  await endsInTime(started)
})

test('a disk that is full', async t => {
  const directory = temporaryFolder(t)
  const full = openSync('/dev/full', 'w')
  t.after(() => closeSync(full))
  const started = await start(directory, full)
  await using _ = started.agent
  await endsInTime(started)
})

test('a second SIGTERM ends at once an agent that drains and whose log has no reader', async t => {
  const directory = temporaryFolder(t)
  const pipe = makePipe(t, directory)
  const { agent, socket } = await start(directory, pipe.writeEnd, { drain: '1h' })
  await using _ = agent
  using _stream = await openStream(socket, ['default'])
  closeSync(pipe.readEnd)
  agent.kill('SIGTERM')
  await until(join(directory, 'run'), () => !existsSync(socket))
  agent.kill('SIGTERM')
  assert.deepEqual(await agent.ended, { code: 1, signal: null })
})

test('a result that cannot be written is exit 1 with the reason, and a reader that has read enough is not a fault', async t => {
  const directory = temporaryFolder(t)
  const bin = new URL('../bin/livery.js', import.meta.url).pathname
  await writeFile(
    join(directory, 'livery.yaml'),
    JSON.stringify({ ca: { plugin: 'embedded' }, identities: [WEB], sockets: [{ path: 'sds.sock' }] }),
  )
  assert.equal((await livery(['check-config'], { cwd: directory })).code, 0)
  const shell = (command: string) =>
    spawnSync('bash', ['-c', command, process.execPath, bin], { cwd: directory, encoding: 'utf8' })
  const full = shell('"$0" "$1" check-config > /dev/full')
  assert.deepEqual(
    [full.status, full.stderr],
    [1, 'livery: Cannot write to standard output: ENOSPC: no space left on device, write.\n'],
  )
  const gone = shell('"$0" "$1" check-config | true; echo "$PIPESTATUS"')
  assert.deepEqual([gone.stdout, gone.stderr], ['0\n', ''])
})
