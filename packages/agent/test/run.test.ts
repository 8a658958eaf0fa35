/** `livery run` as a process: from the start to the last byte, with everything that can be in its way. */
import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { readPeerCredentials } from '@livery/native-keygen'
import { TemporaryFolder, temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

const CONFIG = {
  ca: { plugin: 'embedded', directory: 'ca' },
  identities: [{ id: WEB, socket: 'run/web.sock' }, API],
  sockets: [{ path: 'run/sds.sock', allow: ['spiffe://cluster.local/**'] }],
  admin: { address: '127.0.0.1:0' },
  drain: '200ms',
}

async function start(cwd: string, config: object = CONFIG, env: Record<string, string> = {}): Promise<LiveryProcess> {
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  return new LiveryProcess(['run'], { cwd, env })
}

async function rootOf(socket: string): Promise<string> {
  const [secret] = await fetchSecrets(socket, ['ROOTCA'])
  return secret?.trustedCa ?? ''
}

test('an agent with the embedded CA serves default and ROOTCA, reports them, and stops at SIGTERM', async t => {
  const cwd = temporaryFolder(t)
  await using agent = await start(cwd)
  const admin = await agent.admin()
  const socket = join(cwd, 'run/web.sock')
  const secrets = await fetchSecrets(socket, ['default', 'ROOTCA'])
  const own = secrets.find(({ name }) => name === 'default')
  const root = secrets.find(({ name }) => name === 'ROOTCA')
  const leaf = new X509Certificate(own?.certificateChain ?? '')
  assert.equal(leaf.subjectAltName, `URI:${WEB}`)
  assert.ok(leaf.checkPrivateKey(createPrivateKey(own?.privateKey ?? '')))
  assert.ok(leaf.verify(new X509Certificate(root?.trustedCa ?? '').publicKey))

  const ready = await fetch(`http://${admin}/healthz/ready?strict`)
  assert.equal(ready.status, 200)
  assert.equal(await ready.text(), 'ready\n')

  const certs = await livery(['certs', '--admin', admin], { cwd })
  assert.equal(certs.code, 0, certs.stderr)
  assert.match(certs.stdout, new RegExp(`^IDENTITY +STATE +SERIAL +EXPIRES +LASTS +NEXT ROTATION\n${API} +Available`))
  assert.match(certs.stdout, new RegExp(`${WEB} +Available +${leaf.serialNumber.toLowerCase()} `))

  const explained = await livery(['explain', WEB, '--admin', admin], { cwd })
  assert.match(explained.stdout, /^spiffe:\/\/cluster\.local\/ns\/default\/sa\/web: Available\n/)
  assert.match(explained.stdout, /^ +\d+\w+ ago {2}asked the CA for a certificate \(the first\)$/m)
  assert.match(explained.stdout, /^ +\d+\w+ ago {2}issued: serial /m)
  assert.match(explained.stdout, /asked for by node "test-node"/)
  assert.match((await livery(['explain', 'ROOTCA', '--admin', admin], { cwd })).stdout, /trust bundle changed: 1 root/)
  const unknown = await livery(['explain', 'spiffe://cluster.local/none', '--admin', admin], { cwd })
  assert.deepEqual([unknown.code, unknown.stdout], [1, ''])
  assert.match(unknown.stderr, /^livery: This agent does not know "/)

  agent.kill('SIGTERM')
  assert.deepEqual(await agent.ended, { code: 0, signal: null })
  assert.deepEqual(await readdir(join(cwd, 'run')), [])
  assert.equal(agent.stdout, '')
  assert.doesNotMatch(agent.stderr, /PRIVATE KEY/)
})

test('a second start serves the same root', async t => {
  const directory = temporaryFolder(t)
  const roots: string[] = []
  for (let round = 0; round < 2; round++) {
    await using agent = await start(directory)
    await agent.admin()
    roots.push(await rootOf(join(directory, 'run/web.sock')))
    agent.kill('SIGTERM')
    assert.equal((await agent.ended).code, 0)
  }
  assert.match(roots[0] ?? '', /BEGIN CERTIFICATE/)
  assert.equal(roots[0], roots[1])
})

test('SIGTERM turns readiness off and ends streams, and the process is gone after the drain time', async t => {
  const directory = temporaryFolder(t)
  const other = temporaryFolder(t)
  await using patient = await start(other, { ...CONFIG, drain: '1h' })
  const patientAdmin = await patient.admin()
  using _continuing = await openStream(join(other, 'run/web.sock'), ['default'])
  await using agent = await start(directory, { ...CONFIG, drain: '1s' })
  const admin = await agent.admin()
  using stream = await openStream(join(directory, 'run/web.sock'), ['default'])
  assert.equal(stream.secrets[0]?.name, 'default')
  patient.kill('SIGTERM')
  await patient.line(/SIGTERM: draining/)
  agent.kill('SIGTERM')
  await agent.line(/SIGTERM: draining/)
  const ready = await fetch(`http://${admin}/healthz/ready`)
  assert.equal(ready.status, 503)
  assert.match(await ready.text(), /not ready\nwaiting for:\n {2}The agent is shutting down/)
  assert.equal(await stream.ended, 14)
  assert.equal((await agent.ended).code, 0)
  // Signalled before, with the same stream: its drain time alone keeps it.
  assert.equal((await fetch(`http://${patientAdmin}/healthz/ready`)).status, 503)
})

test('a second signal ends the process at once, sockets removed', async t => {
  const directory = temporaryFolder(t)
  await using agent = await start(directory, { ...CONFIG, drain: '1h' })
  await agent.admin()
  using _stream = await openStream(join(directory, 'run/web.sock'), ['default'])
  agent.kill('SIGTERM')
  await agent.line(/SIGTERM: draining/)
  agent.kill('SIGTERM')
  assert.deepEqual(await agent.ended, { code: 1, signal: null })
  assert.deepEqual(await readdir(join(directory, 'run')), [])
})

test('a socket of a live owner is left alone: exit 1 with the path and the remedy', async t => {
  const directory = temporaryFolder(t)
  await using first = await start(directory)
  await first.admin()
  await using second = new LiveryProcess(['run'], { cwd: directory })
  assert.equal((await second.ended).code, 1)
  assert.match(second.stderr, /sds\.sock: another program .*serves this socket\..*"livery run --takeover"/)
  assert.ok(existsSync(join(directory, 'run/web.sock')))
  assert.match(await rootOf(join(directory, 'run/web.sock')), /BEGIN CERTIFICATE/)
})

test('a place where no socket can be made ends the start with exit 1, the path and the reason', async () => {
  using directory = new TemporaryFolder()
  await using agent = await start(directory.path, { ...CONFIG, sockets: [{ path: 'livery.yaml/sds.sock' }] })
  assert.equal((await agent.ended).code, 1)
  assert.match(
    agent.stderr,
    /livery: Cannot listen on .*livery\.yaml\/sds\.sock.* is not a directory\. Name another path\./,
  )
  assert.equal(existsSync(join(directory.path, 'run/web.sock')), false)
})

test('a caller that no rule lets in is refused and logged, one that a rule lets in is served', {
  skip: readPeerCredentials ? false : 'no addon to distinguish callers',
}, async t => {
  const directory = temporaryFolder(t)
  const allow = ['spiffe://cluster.local/**']
  const uid = process.getuid?.() ?? 0
  const sockets = [
    { path: 'run/mine.sock', allow, callers: [{ uid, allow: [WEB] }] },
    { path: 'run/theirs.sock', allow, callers: [{ uid: uid + 1 }] },
  ]
  await using agent = await start(directory, { ...CONFIG, sockets })
  await agent.admin()
  assert.deepEqual(
    (await fetchSecrets(join(directory, 'run/mine.sock'), ['default'])).map(({ name }) => name),
    ['default'],
  )
  await assert.rejects(fetchSecrets(join(directory, 'run/theirs.sock'), ['ROOTCA']))
  assert.match(await agent.line(/"event":"connection-refused"/), new RegExp(`"uid":${uid},.*"reason":"not-allowed"`))
})

test('callers without the addon are refused at the start with exit 78', {
  skip: readPeerCredentials ? 'the addon is built' : false,
}, async t => {
  const directory = temporaryFolder(t)
  const sockets = [{ path: 'run/sds.sock', allow: ['spiffe://cluster.local/**'], callers: [{ uid: 1 }] }]
  await using agent = await start(directory, { ...CONFIG, sockets })
  assert.equal((await agent.ended).code, 78)
  assert.match(agent.stderr, /Cannot use callers on .*needs the native addon/)
})

test('WebCrypto keys serve as well, and the start says what generates them', async t => {
  const directory = temporaryFolder(t)
  await using agent = await start(directory, CONFIG, { LIVERY_KEYGEN: 'webcrypto' })
  await agent.admin()
  assert.match(await agent.line(/ serves /), /"keys":"ecdsa-p256, webcrypto"/)
  const [own] = await fetchSecrets(join(directory, 'run/web.sock'), ['default'])
  assert.match(own?.privateKey ?? '', /PRIVATE KEY/)
})

test('two nodes: a CA that comes up late heals an agent that was started before it', async t => {
  const cwd = temporaryFolder(t)
  await using probe = new LiveryProcess(['ca', '--listen', '127.0.0.1:0', '--tokens', 'tokens.yaml', '--dir', 'ca'], {
    cwd,
  })
  // The file is not there yet: the CA says so and leaves, and the port is asked of a CA that starts right.
  assert.equal((await probe.ended).code, 78)
  await writeFile(
    join(cwd, 'tokens.yaml'),
    '- { token: node-token, identity: spiffe://cluster.local/node, impersonates: ["spiffe://cluster.local/ns/default/sa/*"] }\n',
  )
  await using invalid = new LiveryProcess(['ca', '--listen', '127.0.0.1:0', '--tokens', 'tokens.yaml', '--dir', 'ca'], {
    cwd,
  })
  assert.equal((await invalid.ended).code, 78)
  assert.match(invalid.stderr, /tokens\.yaml:1: \[0\]\.impersonates\[0\]: is not a SPIFFE ID/)
  assert.doesNotMatch(invalid.stderr, /node-token/)
  await writeFile(
    join(cwd, 'tokens.yaml'),
    `- { token: node-token, identity: spiffe://cluster.local/node, impersonates: [${WEB}, ${API}] }\n`,
  )
  await writeFile(join(cwd, 'token'), 'node-token\n')

  const args = ['ca', '--tokens', 'tokens.yaml', '--dir', 'ca', '--listen']
  await using first = new LiveryProcess([...args, '127.0.0.1:0'], { cwd })
  const { address }: { readonly address: string } = JSON.parse(await first.line(/"msg":"CA of cluster\.local on /))
  first.kill('SIGTERM')
  assert.equal((await first.ended).code, 0)

  await using agent = await start(cwd, {
    ...CONFIG,
    ca: { plugin: 'citadel', address, rootCert: 'ca/root.pem', tokenFile: 'token', impersonate: true },
    retry: { min: '50ms', max: '500ms' },
  })
  const admin = await agent.admin()
  await agent.line(new RegExp(`"event":"ca-error".*"resource":"${WEB}"`))
  const lenient = await fetch(`http://${admin}/healthz/ready`)
  assert.equal(lenient.status, 503)
  assert.match(await lenient.text(), new RegExp(`waiting for:\n(?: .*\n)*  ${WEB}: the CA fails \\(unavailable\\)`))
  assert.equal((await fetch(`http://${admin}/healthz/ready?strict`)).status, 503)

  await using second = new LiveryProcess([...args, address], { cwd })
  await second.line(/"msg":"CA of cluster\.local on /)
  for (const id of [WEB, API]) await agent.line(new RegExp(`"event":"issued","resource":"${id}"`))
  const [secret] = await fetchSecrets(join(cwd, 'run/sds.sock'), [API])
  assert.equal(new X509Certificate(secret?.certificateChain ?? '').subjectAltName, `URI:${API}`)
  assert.equal((await fetch(`http://${admin}/healthz/ready?strict`)).status, 200)
  assert.doesNotMatch(agent.stderr + second.stderr, /node-token/)
})

test("sidecar mode serves one identity on Istio's socket, from nothing but the environment", async t => {
  const cwd = temporaryFolder(t)
  await writeFile(join(cwd, 'tokens.yaml'), `[{ token: sidecar, identity: ${WEB} }]\n`)
  await writeFile(join(cwd, 'token'), 'sidecar')
  await using ca = new LiveryProcess(['ca', '--listen', '127.0.0.1:0', '--tokens', 'tokens.yaml', '--dir', 'ca'], {
    cwd,
  })
  const { address }: { readonly address: string } = JSON.parse(await ca.line(/"msg":"CA of cluster\.local on /))
  const env = {
    SERVICE_ACCOUNT: 'web',
    POD_NAMESPACE: 'default',
    CA_ADDR: address,
    CA_ROOT_CA: 'ca/root.pem',
    AUTH_TOKEN: 'token',
  }
  await using agent = new LiveryProcess(['run', '--admin', '127.0.0.1:0'], { cwd, env })
  await agent.line(new RegExp(`"event":"issued","resource":"${WEB}"`))
  const [secret] = await fetchSecrets(join(cwd, 'var/run/secrets/workload-spiffe-uds/socket'), ['default'])
  assert.equal(new X509Certificate(secret?.certificateChain ?? '').subjectAltName, `URI:${WEB}`)
})

/** Throws from nowhere, or rejects without a handler, when the process gets SIGUSR2. */
function injection(fault: string): string {
  return `--import=data:text/javascript,${encodeURIComponent(`process.on('SIGUSR2', () => { ${fault} })`)}`
}

for (const [what, fault] of [
  ['an exception that nobody caught', "throw new Error('injected')"],
  ['a rejection that nobody handled', "Promise.reject(new Error('injected'))"],
] as const) {
  test(`${what} is logged, the sockets go, and the exit code is 1`, async t => {
    const directory = temporaryFolder(t)
    await using agent = await start(directory, CONFIG, { NODE_OPTIONS: injection(fault) })
    await agent.admin()
    agent.kill('SIGUSR2')
    assert.deepEqual(await agent.ended, { code: 1, signal: null })
    assert.match(agent.stderr, /"level":"fatal".*injected/)
    assert.deepEqual(await readdir(join(directory, 'run')), [])
  })
}

test('SIGUSR2 is reported and ends nothing', async t => {
  const directory = temporaryFolder(t)
  await using agent = await start(directory)
  const admin = await agent.admin()
  agent.kill('SIGUSR2')
  await agent.line(/"level":"warn".*SIGUSR2 does nothing/)
  assert.equal((await fetch(`http://${admin}/healthz/live`)).status, 200)
})

test('a log that nobody reads any more does not end the agent', async t => {
  const directory = temporaryFolder(t)
  await using agent = await start(directory)
  const admin = await agent.admin()
  agent.child.stderr?.destroy()
  agent.child.stdout?.destroy()
  for (let round = 0; round < 3; round++) {
    assert.equal((await fetch(`http://${admin}/logging?level=debug`, { method: 'PUT' })).status, 200)
    assert.equal((await fetchSecrets(join(directory, 'run/sds.sock'), [WEB])).length, 1)
  }
  agent.kill('SIGTERM')
  assert.deepEqual(await agent.ended, { code: 0, signal: null })
})

test('the log level changes at run time, and the health listener has probes only', async t => {
  const directory = temporaryFolder(t)
  await using agent = await start(directory, {
    ...CONFIG,
    health: { address: '127.0.0.1:0' },
    log: { level: 'info' },
  })
  const admin = await agent.admin()
  await fetch(`http://${admin}/logging?level=debug`, { method: 'PUT' })
  await fetchSecrets(join(directory, 'run/sds.sock'), [WEB])
  await agent.line(/"level":"debug".*"event":"asked"/)
  const { health }: { readonly health: string } = JSON.parse(await agent.line(/ serves /))
  assert.equal((await fetch(`http://${health}/healthz/ready`)).status, 200)
  assert.match(await (await fetch(`http://${health}/metrics`)).text(), /^livery_identities\{state="available"\} 2$/m)
  assert.equal((await fetch(`http://${health}/config_dump`)).status, 404)
})

test('one scope is debugged while the agent runs, by LOG at the start, by the command or over HTTP later', async t => {
  const cwd = temporaryFolder(t)
  await using agent = await start(cwd, CONFIG, { LOG: 'warn,agent:info,ca:debug' })
  const admin = await agent.admin()
  await agent.line(/"level":"debug",.*"scope":"ca","event":"csr-sent"/)
  const shown = await livery(['log-level', '--admin', admin, '--json'], { cwd })
  const levels: Readonly<Record<string, string>> = JSON.parse(shown.stdout)
  assert.deepEqual([levels['ca'], levels['sds'], levels['agent']], ['debug', 'warn', 'info'])
  const changed = await livery(['log-level', 'info,sds:debug', '--admin', admin], { cwd })
  assert.equal(changed.stdout, 'info,sds:debug\n')
  assert.match(
    await agent.line(/"event":"log-level-changed"/),
    /"to":"info,sds:debug","from":"warn,agent:info,ca:debug"/,
  )
  await fetchSecrets(join(cwd, 'run/sds.sock'), [WEB])
  await agent.line(/"level":"debug",.*"scope":"sds","event":"asked"/)
  const hushed = await livery(['log-level', 'sds:error', '--admin', admin], { cwd })
  assert.equal(hushed.code, 1)
  assert.match(
    hushed.stderr,
    /^livery: Not set to info,sds:error\. Only the operator may do this, because the level error would hide warnings\./,
  )
})

test('metrics count what a client did', async t => {
  const directory = temporaryFolder(t)
  await using agent = await start(directory)
  const admin = await agent.admin()
  using _stream = await openStream(join(directory, 'run/web.sock'), ['default'])
  const text = await (await fetch(`http://${admin}/metrics`)).text()
  assert.match(text, /^livery_sds_streams\{socket=".*web\.sock"\} 1$/m)
  assert.match(text, /^livery_sds_pushes_total 1$/m)
  assert.match(text, new RegExp(`^livery_certificate_expiration_timestamp_seconds\\{identity="${API}"\\} \\d+$`, 'm'))
})

test('SIGUSR1 opens no debugger', async t => {
  const directory = temporaryFolder(t)
  await using agent = await start(directory)
  const admin = await agent.admin()
  agent.kill('SIGUSR1')
  assert.equal((await fetch(`http://${admin}/healthz/live`)).status, 200)
  agent.kill('SIGTERM')
  assert.equal((await agent.ended).code, 0)
  assert.doesNotMatch(agent.stderr, /[Dd]ebugger/)
})

test('a socket that every user can open causes a warning, unless callers are distinguished', async t => {
  const directory = temporaryFolder(t)
  const sockets = [{ ...CONFIG.sockets[0], mode: '0666' }]
  await using agent = await start(directory, { ...CONFIG, sockets })
  await agent.admin()
  agent.kill('SIGTERM')
  await agent.ended
  const { stderr } = agent
  assert.match(stderr, /sds\.sock: every user of this machine may open it \(mode 666\).*set a mode such as/)
  assert.doesNotMatch(stderr, /web\.sock: every user/)
})

test('certs and explain work over a UNIX socket, by the configuration and by --admin', async t => {
  const cwd = temporaryFolder(t)
  await using agent = await start(cwd, { ...CONFIG, admin: { address: 'unix:run/admin.sock' } })
  await agent.line(new RegExp(`"event":"issued","resource":"${WEB}"`))
  assert.equal(await agent.admin(), `unix:${join(cwd, 'run/admin.sock')}`)
  for (const args of [
    ['--config', 'livery.yaml'],
    ['--admin', 'unix:run/admin.sock'],
  ]) {
    const certs = await livery([...args, 'certs'], { cwd })
    assert.match(certs.stdout, new RegExp(`^${WEB} +Available`, 'm'), certs.stderr)
    assert.match((await livery([...args, 'explain', WEB], { cwd })).stdout, /issued: serial/)
  }
  agent.kill('SIGTERM')
  assert.equal((await agent.ended).code, 0)
  assert.match((await livery(['--admin', 'unix:run/admin.sock', 'certs'], { cwd })).stderr, /nothing listens there/)
})
