/** `livery doctor`: each thing that can be wrong is made wrong, and found with its remedy. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync, sign } from 'node:crypto'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeClock, makeIssuer } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import type { Finding } from '../src/doctor/finding.ts'
import { startIstioCa } from './istio-ca.ts'
import { LiveryProcess, livery, type ProcessOptions } from './livery-process.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const EMBEDDED = { ca: { plugin: 'embedded', directory: 'ca' } }

async function configure(cwd: string, keys: object): Promise<void> {
  const config = { identities: [{ id: WEB, socket: 'run/web.sock' }], drain: '100ms', ...keys }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
}

/** An agent whose identity has its certificate; `admin` is what commands are to be given. */
async function startAgent(cwd: string, launcher: readonly string[] = []) {
  const agent = new LiveryProcess(['run', '--admin', '127.0.0.1:0'], { cwd, launcher })
  const admin = await agent.admin()
  const wait = await livery(['wait', '--socket', 'run/web.sock', '--name', 'default'], { cwd })
  assert.equal(wait.code, 0, wait.stderr)
  return { admin, [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() }
}

interface Examined {
  readonly code: number | null
  readonly output: string
  readonly findings: readonly Finding[]
  /** The first that is wrong with `check`. */
  wrong(check: Finding['check']): Finding
}

async function doctor(
  cwd: string,
  options: Partial<ProcessOptions> & { readonly admin?: string } = {},
): Promise<Examined> {
  const { admin = '127.0.0.1:1', ...rest } = options
  const { code, stdout, stderr } = await livery(['doctor', '--json', '--admin', admin], { cwd, ...rest })
  assert.equal(stderr, '')
  const findings: readonly Finding[] = JSON.parse(stdout)
  return {
    code,
    output: stdout,
    findings,
    wrong(check) {
      const found = findings.find(each => each.check === check && each.state === 'wrong')
      assert.ok(found, stdout)
      return found
    },
  }
}

test('of an agent that serves nothing is wrong; exit 0', async t => {
  const cwd = temporaryFolder(t)
  await configure(cwd, { ...EMBEDDED, store: { directory: 'store' } })
  await using agent = await startAgent(cwd)
  const { admin } = agent
  const { code, findings } = await doctor(cwd, { admin })
  assert.deepEqual(
    findings.filter(({ state }) => state === 'wrong'),
    [],
  )
  assert.equal(code, 0)
  const checks = ['agent', 'socket', 'folder', 'roots', 'disk', 'inotify'] as const
  for (const check of checks)
    assert.ok(
      findings.some(each => each.check === check && each.state === 'ok'),
      check,
    )
  const text = await livery(['doctor', '--admin', admin], { cwd })
  assert.match(text.stdout, /^ok +socket +\S+web\.sock\n {2}mode 0660.*it answers$/m)
  assert.match(text.stdout, /\n\nNothing is wrong on this node\. [\s\S]*docs\/run\/runbook\/calls-refused\.md\n$/)
})

test('a folder in which others can replace the socket, and a socket of another mode', async t => {
  const cwd = temporaryFolder(t)
  await configure(cwd, EMBEDDED)
  await using agent = await startAgent(cwd)
  const { admin } = agent
  const [folder, socket] = [join(cwd, 'run'), join(cwd, 'run/web.sock')]
  await chmod(folder, 0o777)
  const open = await doctor(cwd, { admin })
  assert.equal(open.code, 1)
  const { subject, text, remedy } = open.wrong('socket')
  assert.equal(subject, socket)
  assert.match(text, /others can put another socket in its place: .*run \(mode 0777/)
  assert.match(remedy ?? '', new RegExp(`^Run: chmod go-w ${folder}`))
  await chmod(folder, 0o750)
  await chmod(socket, 0o600)
  const closed = (await doctor(cwd, { admin })).wrong('socket')
  assert.match(closed.text, /its mode is 0600, and the configuration says 0660/)
  assert.equal(closed.remedy, `Run: chmod 0660 ${socket}`)
})

test('an agent that does not run, and a folder of keys that others can look into', async t => {
  const cwd = temporaryFolder(t)
  await configure(cwd, { ...EMBEDDED, store: { directory: 'store', keyFile: 'key' } })
  await writeFile(join(cwd, 'key'), Buffer.alloc(31), { mode: 0o600 })
  await mkdir(join(cwd, 'store'))
  await chmod(join(cwd, 'store'), 0o755)
  const found = await doctor(cwd)
  assert.equal(found.code, 1)
  assert.match(found.wrong('agent').text, /nothing listens there/)
  assert.match(found.wrong('folder').remedy ?? '', /^Run: chmod 0700 \S+store$/)
  assert.match(found.output, /store\.keyFile \S+key has 31 bytes, not 32/)
  assert.equal(found.findings.find(({ check }) => check === 'socket')?.state, 'skipped')
})

interface TestedCA extends AsyncDisposable {
  readonly ca: object
}

const JWT_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const ISSUER = 'https://kubernetes.default.svc'

/** As kubelet mounts it, of the service account default/web. */
function tokenFor(audience: string, expiresInSeconds = 3_600): string {
  const now = Math.floor(Date.now() / 1000)
  const claims = {
    iss: ISSUER,
    aud: [audience],
    sub: 'system:serviceaccount:default:web',
    iat: now,
    exp: now + expiresInSeconds,
  }
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const text = `${encode({ alg: 'ES256', kid: 'one' })}.${encode(claims)}`
  const signature = sign('sha256', Buffer.from(text), { key: JWT_KEY.privateKey, dsaEncoding: 'ieee-p1363' })
  return `${text}.${signature.toString('base64url')}`
}

/** A CA in its own process that takes this token of WEB and no other. */
async function startTokenCA(cwd: string, token: string): Promise<TestedCA> {
  await writeFile(join(cwd, 'tokens.yaml'), JSON.stringify([{ token, identity: WEB }]), { mode: 0o600 })
  const args = ['ca', '--listen', '127.0.0.1:0', '--dir', 'ca', '--tokens', 'tokens.yaml']
  const server = new LiveryProcess(args, { cwd })
  const { address }: { readonly address: string } = JSON.parse(await server.line(/"msg":"CA of cluster\.local on /))
  const ca = { plugin: 'citadel', address, rootCert: 'ca/root.pem', tokenFile: 'token' }
  return { ca, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

test('a token of the wrong audience, then one that has expired, then a good one; none is ever printed', async t => {
  const cwd = temporaryFolder(t)
  const accepted = tokenFor('istio-ca')
  await using server = await startTokenCA(cwd, accepted)
  await configure(cwd, { ca: server.ca })
  const write = async (token: string) => {
    await writeFile(join(cwd, 'token'), token, { mode: 0o600 })
    return token.split('.')
  }
  const secrets = await write(tokenFor('vault'))
  const strange = await doctor(cwd)
  assert.equal(strange.code, 1)
  assert.match(strange.wrong('ca').text, /^unauthenticated: /)
  const { subject, text, remedy } = strange.wrong('token')
  assert.equal(subject, join(cwd, 'token'))
  assert.equal(text, 'it is for vault, and the CA did not take it')
  assert.match(remedy ?? '', /audience is istio-ca/)

  secrets.push(...(await write(tokenFor('istio-ca', -60))))
  const old = await doctor(cwd)
  assert.match(old.wrong('token').text, /^it expired at \d{4}-/)

  secrets.push(...(await write(accepted)))
  const good = await doctor(cwd)
  const states = good.findings.flatMap(({ check, state }) =>
    ['ca', 'clock', 'token'].includes(check) ? [[check, state]] : [],
  )
  assert.deepEqual(states, [
    ['ca', 'ok'],
    ['clock', 'ok'],
    ['token', 'ok'],
  ])
  const output = strange.output + old.output + good.output
  for (const secret of secrets) assert.ok(!output.includes(secret))
  assert.doesNotMatch(output, /PRIVATE KEY/)
})

test('a token whose dates no clock can have is one that only the CA can read', async t => {
  const cwd = temporaryFolder(t)
  const root = await makeIssuer('CN=root', Date.now())
  await writeFile(join(cwd, 'root.pem'), root.pem)
  await configure(cwd, { ca: { plugin: 'citadel', address: '127.0.0.1:1', rootCert: 'root.pem', tokenFile: 'token' } })
  for (const claims of [{ exp: -1e300 }, { exp: 1e300 }, { nbf: -1e300 }]) {
    const payload = Buffer.from(JSON.stringify(claims)).toString('base64url')
    await writeFile(join(cwd, 'token'), `e30.${payload}.AA`, { mode: 0o600 })
    const { findings } = await doctor(cwd)
    const token = findings.find(({ check }) => check === 'token')
    assert.deepEqual([token?.state, token?.text], ['ok', 'it can be read; only the CA knows what is in it'])
  }
})

test('a CA that is down, and a root that cannot be read', async t => {
  const cwd = temporaryFolder(t)
  const root = await makeIssuer('CN=root', Date.now())
  await writeFile(join(cwd, 'root.pem'), root.pem)
  await writeFile(join(cwd, 'token'), 'opaque', { mode: 0o600 })
  const ca = { plugin: 'citadel', address: '127.0.0.1:1', rootCert: 'root.pem', tokenFile: 'token' }
  await configure(cwd, { ca })
  const down = await doctor(cwd)
  assert.equal(down.code, 1)
  const { subject, text, remedy } = down.wrong('ca')
  assert.equal(subject, 'citadel at 127.0.0.1:1')
  assert.match(text, /^unavailable: .*ECONNREFUSED/)
  assert.match(remedy ?? '', /^Start the CA/)

  const YEARS_AGO = Date.now() - 11 * 365 * 86_400_000
  await writeFile(join(cwd, 'root.pem'), (await makeIssuer('CN=root', YEARS_AGO)).pem)
  const old = await doctor(cwd)
  assert.match(old.wrong('roots').text, /^all roots in this file have expired, the last at \d{4}-/)
})

for (const [minutes, expected] of [
  [-10, /^the clocks of this node and of the CA differ by (at least )?10 minutes: this node's is ahead$/],
  [1.5, /^the clocks of this node and of the CA differ by (at least )?(8\d|9\d) seconds: the CA's is ahead$/],
] as const)
  test(`a clock that differs from the CA's by ${-minutes} minutes, as its answer shows`, async t => {
    const cwd = temporaryFolder(t)
    await using server = await startIstioCa(new FakeClock(Date.now() + minutes * 60_000), WEB)
    await writeFile(join(cwd, 'root.pem'), server.root)
    await writeFile(join(cwd, 'token'), 'good', { mode: 0o600 })
    await configure(cwd, {
      ca: { plugin: 'citadel', address: server.address, rootCert: 'root.pem', tokenFile: 'token' },
    })
    const found = await doctor(cwd)
    assert.equal(found.findings.find(({ check }) => check === 'ca')?.state, 'ok', found.output)
    assert.match(found.wrong('clock').text, expected)
    assert.match(found.wrong('clock').remedy ?? '', /timedatectl/)
  })

function without(tool: string, ...args: readonly string[]): string | false {
  return spawnSync(tool, args).status === 0 ? false : `${tool} ${args.join(' ')} does not work here`
}

test('an agent that may open too few files', { skip: without('prlimit', '--nofile=600:600', 'true') }, async t => {
  const cwd = temporaryFolder(t)
  await configure(cwd, EMBEDDED)
  await using agent = await startAgent(cwd, ['prlimit', '--nofile=600:600'])
  const found = await doctor(cwd, { admin: agent.admin })
  assert.equal(found.code, 1)
  const { subject, text, remedy } = found.wrong('open-files')
  assert.equal(subject, 'livery run')
  assert.match(text, /^600 files may be open, and limits\.connections \d+ needs \d+$/)
  assert.match(remedy ?? '', /LimitNOFILE=/)
})

const FULL_DISK =
  'mkdir -m 0700 -p store && mount -t tmpfs -o size=64k,mode=0700 none store && { head -c 200000 /dev/zero > store/big 2>/dev/null; exec "$@"; }'
const withFullDisk = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', FULL_DISK, 'sh']

test('a store on a full disk', {
  skip: without('unshare', '--user', '--map-root-user', '--mount', 'true'),
}, async t => {
  const cwd = temporaryFolder(t)
  await configure(cwd, { ...EMBEDDED, store: { directory: 'store' } })
  const found = await doctor(cwd, { launcher: withFullDisk })
  const { subject, text, remedy } = found.wrong('disk')
  assert.equal(subject, join(cwd, 'store'))
  assert.equal(text, '0 KiB are free')
  assert.match(remedy ?? '', /^Make room there/)
})

const WITHOUT_WATCHES = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
const launcher = ['unshare', '--user', '--map-root-user', 'sh', '-c', WITHOUT_WATCHES, 'sh']

test('a user that may watch no folder', { skip: without('unshare', ...launcher.slice(1), 'true') }, async t => {
  const cwd = temporaryFolder(t)
  await configure(cwd, EMBEDDED)
  const found = await doctor(cwd, { launcher })
  const { text, remedy } = found.wrong('inotify')
  assert.match(text, /^no folder can be watched \((EMFILE|ENOSPC)\): 0 instances/)
  assert.match(remedy ?? '', /fs\.inotify\.max_user_instances/)
})

test('a pipe in the place of the roots of the CA is a finding, and is not waited for', async t => {
  const cwd = temporaryFolder(t)
  assert.equal(spawnSync('mkfifo', [join(cwd, 'root.pem')]).status, 0)
  await configure(cwd, { ca: { plugin: 'citadel', address: '127.0.0.1:1', rootCert: 'root.pem' } })
  const examined = await doctor(cwd)
  assert.match(examined.wrong('roots').text, /not a regular file/)
})
