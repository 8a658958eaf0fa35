/** Somebody else has taken, before the agent starts, an address, path or file that it takes: whether it serves all the same. */
import assert from 'node:assert/strict'
import { chown, mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort, listening, temporaryFolder } from '@livery/test-support'
import { Command, shellEnvironment } from './command.ts'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets } from './sds-client.ts'

const [WEB, API] = ['web', 'api'].map(name => `spiffe://cluster.local/ns/default/sa/${name}`)
/** Any user of the node. */
const NOBODY = 65_534
const ADMIN_SOCKET = 'run/admin.sock'

/** `cwd` is the folder of the configuration, `address` a TCP address that nobody else uses. */
interface Place {
  readonly cwd: string
  readonly address: string
}

interface Taken {
  readonly what: string
  /** Beside a CA, an identity on run/web.sock and its folder. */
  readonly config?: (place: Place) => object
  take(place: Place): Promise<AsyncDisposable>
  /** The line of the log. */
  readonly line: RegExp
  /** The line that follows, once it is free; absent where only a restart takes it. */
  readonly acquired?: RegExp
}

const admin = ({ address }: Place): object => ({ admin: { address } })
const health = ({ address }: Place): object => ({ health: { address } })

/** Listens as another user, where the test can choose one. */
async function listenAsNobody({ address }: Place): Promise<AsyncDisposable> {
  const [host, port] = address.split(':')
  const script = `require('net').createServer(s => s.on('error', () => {})).listen(${port}, '${host}', () => console.log('taken'))`
  const uid = process.getuid?.() === 0 ? NOBODY : undefined
  const squatter = new Command(process.execPath, ['-e', script], { cwd: '/', env: shellEnvironment(), uid })
  await squatter.line(/taken/)
  return squatter
}

async function listenAt(path: string): Promise<AsyncDisposable> {
  const server = createServer(socket => socket.on('error', () => {}))
  await listening(server, path)
  return server
}

/** Something that is no socket, of another user where the test can give it away. */
async function put(path: string, make: (path: string) => Promise<unknown>): Promise<AsyncDisposable> {
  await make(path)
  return { [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

const SERVES: readonly Taken[] = [
  {
    what: 'the TCP address of the admin endpoint',
    config: admin,
    take: listenAsNobody,
    line: /"level":"error".*"event":"endpoint-waiting".*"endpoint":"admin".*admin\.address.*another process/,
    acquired: /"event":"endpoint-acquired".*"endpoint":"admin"/,
  },
  {
    what: 'the health address',
    config: health,
    take: listenAsNobody,
    line: /"level":"error".*"event":"endpoint-waiting".*"endpoint":"health".*health\.address.*another process/,
    acquired: /"event":"endpoint-acquired".*"endpoint":"health"/,
  },
  {
    what: 'the admin socket of the configuration',
    config: () => ({ admin: { address: `unix:${ADMIN_SOCKET}` } }),
    take: ({ cwd }) => listenAt(join(cwd, ADMIN_SOCKET)),
    line: /"event":"endpoint-waiting".*another program/,
    acquired: /"event":"endpoint-acquired"/,
  },
  {
    what: 'the admin socket that nobody configured',
    take: ({ cwd }) => listenAt(join(cwd, ADMIN_SOCKET)),
    line: /"event":"endpoint-waiting".*another program/,
    acquired: /"event":"endpoint-acquired"/,
  },
  ...(
    [
      ['a file', path => writeFile(path, '')],
      ['a folder', path => mkdir(path)],
      ['a symbolic link', path => symlink('/nowhere', path)],
    ] as const satisfies readonly (readonly [string, (path: string) => Promise<unknown>])[]
  ).map(
    ([what, make]): Taken => ({
      what: `the admin socket, by ${what}`,
      take: ({ cwd }) => put(join(cwd, ADMIN_SOCKET), make),
      line: /"event":"endpoint-waiting".*only a socket is ever replaced/,
      acquired: /"event":"endpoint-acquired"/,
    }),
  ),
  {
    what: 'one of the sockets',
    config: () => ({
      identities: [
        { id: WEB, socket: 'run/web.sock' },
        { id: API, socket: 'run/api.sock' },
      ],
    }),
    take: ({ cwd }) => listenAt(join(cwd, 'run/api.sock')),
    line: /"event":"socket-waiting".*api\.sock/,
    acquired: /"event":"socket-acquired".*api\.sock/,
  },
  {
    what: 'an output directory, by a file',
    config: () => ({ output: { directory: 'out' } }),
    take: ({ cwd }) => put(join(cwd, 'out'), path => writeFile(path, '')),
    line: /"level":"error".*out/,
  },
  {
    what: 'the socket for a successor, by a folder',
    config: () => ({ store: { directory: 'store' } }),
    take: async ({ cwd }) => {
      await mkdir(join(cwd, 'store'), { mode: 0o700 })
      return await put(join(cwd, 'store/owner.sock'), path => mkdir(path))
    },
    line: /no agent can take over from this one/,
  },
]

async function configure(cwd: string, config: object): Promise<void> {
  await mkdir(join(cwd, 'run'), { mode: 0o750 })
  const basis = { ca: { plugin: 'embedded' }, identities: [{ id: WEB, socket: 'run/web.sock' }], drain: '100ms' }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify({ ...basis, ...config }))
}

for (const { what, config, take, line, acquired } of SERVES)
  test(`the agent serves though another has ${what}`, async t => {
    const directory = temporaryFolder(t)
    const place = { cwd: directory, address: `127.0.0.1:${await freePort()}` }
    await configure(place.cwd, config?.(place) ?? {})
    await using taken = new AsyncDisposableStack()
    taken.use(await take(place))
    await using agent = new LiveryProcess(['--json', 'run'], { cwd: place.cwd })
    await agent.line(/"msg":"livery .* serves/)
    const [secret] = await fetchSecrets(join(place.cwd, 'run/web.sock'), ['default'])
    assert.ok(secret?.privateKey)
    await agent.line(line)
    await taken.disposeAsync()
    if (acquired) await agent.line(acquired)
    agent.kill('SIGTERM')
    assert.deepEqual(await agent.ended, { code: 0, signal: null })
  })

test('an admin address that this machine does not have is reported, and nothing else waits for it', async t => {
  const directory = temporaryFolder(t)
  await configure(directory, { admin: { address: '192.0.2.1:15100' } })
  await using agent = new LiveryProcess(['--json', 'run'], { cwd: directory })
  await agent.line(/"msg":"livery .* serves/)
  assert.equal((await fetchSecrets(join(directory, 'run/web.sock'), ['default'])).length, 1)
  await agent.line(/"event":"endpoint-waiting".*this machine has no such address/)
})

test('readiness and doctor say which endpoint waits, and for what', async t => {
  const directory = temporaryFolder(t)
  const place = { cwd: directory, address: `127.0.0.1:${await freePort()}` }
  await configure(place.cwd, health(place))
  await using _taken = await listenAsNobody(place)
  await using agent = new LiveryProcess(['--json', 'run'], { cwd: place.cwd })
  await agent.line(/"event":"issued"/)
  const { stdout } = await livery(['doctor', '--json'], { cwd: place.cwd })
  const findings: readonly { readonly state: string; readonly text: string }[] = JSON.parse(stdout)
  const about = findings.filter(({ text }) => text.includes(place.address))
  assert.deepEqual(
    about.map(({ state }) => state),
    ['warning'],
  )
  assert.match(about[0]?.text ?? '', /health\.address.*another process/)
})

test('the commands of an agent do not ask another agent that has its admin address', async t => {
  const [first, second] = [temporaryFolder(t), temporaryFolder(t)]
  const address = `127.0.0.1:${await freePort()}`
  for (const cwd of [first, second]) await configure(cwd, { admin: { address } })
  await using other = new LiveryProcess(['--json', 'run'], { cwd: first })
  await other.line(/"msg":"next: open http:/)
  await using agent = new LiveryProcess(['--json', 'run'], { cwd: second })
  const serves = await agent.line(/"msg":"livery .* serves/)
  assert.match(serves, new RegExp(`admin: waits for ${address}`))
  await agent.line(/"msg":"next: type \\"livery doctor\\""/)
  for (const [cwd, code, says] of [
    [first, 0, /spiffe:/],
    [second, 1, new RegExp(`is held by the agent of ${join(first, 'livery.yaml')}. Stop the holder`)],
  ] as const) {
    const certs = await livery(['certs'], { cwd })
    assert.equal(certs.code, code)
    assert.match(certs.stdout + certs.stderr, says)
  }
  const doctor = await livery(['doctor'], { cwd: second })
  assert.equal(doctor.code, 1)
  assert.match(doctor.stdout, /WRONG +agent .*\n.*is held by the agent of/)
  const renewal = await livery(['renew', 'default'], { cwd: second })
  assert.match(renewal.stderr, /is held by the agent of/)
  assert.equal((await livery(['certs', '--admin', address], { cwd: second })).code, 0)
})

/** What holds secrets or decides who signs: nobody but the operator can have taken it, and to go on beside it would harm. */
const REFUSES: readonly {
  readonly what: string
  readonly config?: object
  take(cwd: string): Promise<AsyncDisposable>
  readonly says: RegExp
}[] = [
  {
    what: 'every socket',
    take: cwd => listenAt(join(cwd, 'run/web.sock')),
    says: /run\/web\.sock: another program.*Stop it, or choose another path\. .*--takeover/,
  },
  {
    what: 'the path of a socket, by a file',
    take: cwd => put(join(cwd, 'run/web.sock'), path => writeFile(path, '')),
    says: /run\/web\.sock: it is a file of uid \d+.*move it away or choose another path/,
  },
  {
    what: 'the store, as its owner',
    config: { store: { directory: 'store' } },
    take: async cwd => {
      await mkdir(join(cwd, 'store'), { mode: 0o700 })
      return await listenAt(join(cwd, 'store/owner.sock'))
    },
    says: /Cannot use the store in .*another agent owns it\. Stop that one/,
  },
  {
    what: 'the store, by a file',
    config: { store: { directory: 'store' } },
    take: cwd => put(join(cwd, 'store'), path => writeFile(path, '')),
    says: /store.* is not a directory/,
  },
  {
    what: 'the folder of the store, of another user',
    config: { store: { directory: 'store' } },
    take: cwd =>
      put(join(cwd, 'store'), async path => {
        await mkdir(path, { mode: 0o777 })
        if (process.getuid?.() === 0) await chown(path, NOBODY, NOBODY)
      }),
    says: /store.*(uid 65534|mode 0?7\d\d)/,
  },
  {
    what: 'the folder of the embedded CA, by a file',
    config: { ca: { plugin: 'embedded', directory: 'ca' } },
    take: cwd => put(join(cwd, 'ca'), path => writeFile(path, '')),
    says: /ca.* is not a directory/,
  },
]

for (const { what, config = {}, take, says } of REFUSES)
  test(`the agent refuses to start where another has ${what}, and says what to do`, async t => {
    const cwd = temporaryFolder(t)
    await configure(cwd, config)
    await using _taken = await take(cwd)
    const { code, stderr } = await livery(['run'], { cwd })
    assert.equal(code, 1, stderr)
    assert.match(stderr, says)
  })
