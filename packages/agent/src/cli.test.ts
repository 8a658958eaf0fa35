import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { listening, portOf, TemporaryFolder, temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from '../test/livery-process.ts'
import { runInProcess } from '../test/run-in-process.ts'

const CONFIG = `ca: { plugin: embedded }
identities: [spiffe://cluster.local/ns/default/sa/web]
sockets: [{ path: run/sds.sock }]
`

async function inDirectory(args: readonly string[], files: Readonly<Record<string, string>> = {}, env = {}) {
  using directory = new TemporaryFolder()
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory.path, name), text)
  return await livery(args, { cwd: directory.path, env })
}

/** Runs in a directory without a configuration. */
function inProcess(args: readonly string[]) {
  return runInProcess(args, '/nowhere')
}

test('--help and --version are results: standard output, exit 0', async () => {
  const help = await inDirectory(['--help'])
  assert.deepEqual([help.code, help.stderr], [0, ''])
  assert.match(help.stdout, /^Usage: livery /)
  const version = await inDirectory(['--version'])
  assert.deepEqual([version.code, version.stderr], [0, ''])
  assert.match(version.stdout, /^\d+\.\d+\.\d+\n$/)
})

test('wrong usage is exit 2, on standard error, with what was meant', async () => {
  const cases = [
    [],
    ['run', '--wrong'],
    ['run', 'extra'],
    ['explain'],
    ['--config'],
    ['diff'],
    ['wait'],
    ['status'],
    ['certs', 'web'],
    ['certs', '--admin', 'nowhere'],
    ['ca'],
    ['ca', '--tokens', 'x', '--listen', '15012'],
    ['ca', '--tokens', 'x', '--trust-domain', 'A B'],
  ]
  for (const args of cases) {
    const { code, stdout, stderr } = await inProcess(args)
    assert.deepEqual([code, stdout], [2, ''], args.join(' '))
    assert.notEqual(stderr, '')
  }
  const { code, stdout, stderr } = await inDirectory(['rnu'])
  assert.deepEqual([code, stdout], [2, ''])
  assert.match(stderr, /Did you mean run\?/)
})

test('a configuration that cannot be used is exit 78, with file, line, key, reason and remedy, for every command that reads it', async () => {
  for (const command of ['run', 'check-config', 'certs']) {
    const { code, stdout, stderr } = await inDirectory([command], { 'livery.yaml': `${CONFIG}ttl: 1\n` })
    assert.deepEqual([code, stdout], [78, ''], command)
    assert.equal(
      stderr,
      'livery: the configuration cannot be used.\n  livery.yaml:4: ttl: 1 is not a duration. Write a number with a unit: 500ms, 5s, 30m, 24h or 90d.\n',
    )
  }
})

test('bad YAML, a missing file and no configuration at all are exit 78', async () => {
  const bad = await inDirectory(['run'], { 'livery.yaml': 'ca: {\n' })
  assert.equal(bad.code, 78)
  assert.match(bad.stderr, /livery\.yaml:\d: cannot be read as YAML/)
  const missing = await inDirectory(['run', '--config', 'none.yaml'])
  assert.deepEqual(
    [missing.code, missing.stderr],
    [78, 'livery: the configuration cannot be used.\n  none.yaml: the file does not exist. Check the path.\n'],
  )
  const none = await inDirectory(['run'])
  assert.equal(none.code, 78)
  assert.match(none.stderr, /there is none: no --config, no LIVERY_CONFIG, no livery\.yaml in/)
})

test('a fault of the configuration that only a CA plugin can find is exit 78, too', async () => {
  const refusals: readonly [string, RegExp][] = [
    ['serverName: "https://ca"', /livery\.yaml:1: ca\.serverName: "https:\/\/ca" is not a DNS name\. Write it without/],
    [
      'headers: { Authorization: s3cret }',
      /livery\.yaml:1: ca\.headers: Cannot use headers\.Authorization "…": .*Use tokenFile/,
    ],
  ]
  for (const [key, message] of refusals) {
    const citadel = `ca: { plugin: citadel, address: "ca:15012", rootCert: system, ${key} }\n`
    for (const command of [['run', '--admin', '127.0.0.1:0'], ['check-config']]) {
      const { code, stderr } = await inDirectory(command, { 'livery.yaml': CONFIG.replace(/^ca: .*\n/, citadel) })
      assert.equal(code, 78)
      assert.match(stderr, message)
      assert.doesNotMatch(stderr, /s3cret/)
    }
  }
})

test('check-config prints the outcome on standard output and warnings on standard error', async () => {
  const files = { 'other.yaml': `${CONFIG}admin: { address: "0.0.0.0:1" }\n` }
  const env = { SECRET_TTL: '1h' }
  const yaml = await inDirectory(['check-config', '--config', 'other.yaml'], files, env)
  assert.equal(yaml.code, 0)
  assert.match(yaml.stdout, /^ttl: 1h # environment SECRET_TTL$/m)
  assert.match(yaml.stderr, /^livery: warning: admin\.address 0\.0\.0\.0:1 is reachable/)
  const json = await inDirectory(['--json', 'check-config'], files, { ...env, LIVERY_CONFIG: 'other.yaml' })
  const { config, origins }: { config: { ttl: string }; origins: Record<string, string> } = JSON.parse(json.stdout)
  assert.deepEqual([config.ttl, origins['ttl'], origins['drain']], ['1h', 'environment SECRET_TTL', 'default'])
})

test('certs, streams, explain and renew say where nobody answered', async () => {
  for (const args of [['certs'], ['streams'], ['explain', 'x'], ['renew', 'x']]) {
    const { code, stdout, stderr } = await inProcess([...args, '--admin', '127.0.0.1:1'])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(
      stderr,
      /Cannot ask the agent at 127\.0\.0\.1:1: .*Start it with "livery run", or name its address with --admin/,
    )
  }
})

test('--admin takes the URL that the log prints, a slash at its end, and a port alone', async () => {
  for (const admin of ['http://127.0.0.1:1', '127.0.0.1:1/', '1'])
    assert.match((await inProcess(['certs', '--admin', admin])).stderr, /Cannot ask the agent at 127\.0\.0\.1:1: /)
})

test('renew says why it sent no token, where its file cannot be used', async t => {
  const server = createServer((_request, response) => response.writeHead(403).end('refused'))
  const path = join(temporaryFolder(t), 'admin.sock')
  await listening(server, path)
  const admin = `admin: { address: "unix:${path}", tokenFile: missing.token }\n`
  const { code, stderr } = await inDirectory(['renew', 'x'], { 'livery.yaml': CONFIG + admin })
  server.close()
  assert.equal(code, 1)
  assert.match(stderr, /^livery: admin\.tokenFile \S+missing\.token cannot be read: ENOENT.*\. refused\n$/)
})

test('a reader that closes its end early is not an error', async t => {
  const directory = temporaryFolder(t)
  await writeFile(join(directory, 'livery.yaml'), CONFIG)
  await using command = new LiveryProcess(['check-config'], { cwd: directory })
  command.child.stdout?.destroy()
  const { code, signal } = await command.ended
  assert.deepEqual([code, signal], [0, null])
  assert.equal(command.stderr, '')
})

test('what listens at the admin address and speaks another protocol is said to be there', async () => {
  for (const answer of ['', 'SSH-2.0-OpenSSH_9.2\r\n']) {
    const server = await listening(createTcpServer(socket => socket.on('error', () => {}).end(answer)))
    const { code, stderr } = await inProcess(['certs', '--admin', String(portOf(server))])
    server.close()
    assert.equal(code, 1)
    assert.match(
      stderr,
      /: something listens there that does not answer as an admin endpoint does \(.+\)\. Stop it, or use another address/,
    )
  }
})

test('without a configuration here the message says how the agent is found', async () => {
  const { code, stderr } = await inProcess(['certs'])
  assert.equal(code, 1)
  assert.match(stderr, /^livery: Cannot find the agent: there is no livery\.yaml here\. Run the command in the folder/)
})

test('another program at the admin address is said to be one, and its pages are not poured out', async () => {
  const answers = ['{"configs": []}', 'x'.repeat(10_000)]
  const server = await listening(createServer((_request, response) => response.end(answers.shift())))
  const admin = `127.0.0.1:${portOf(server)}`
  for (const _ of [1, 2]) {
    const certs = await inProcess(['certs', '--admin', admin])
    assert.equal(certs.code, 1)
    assert.match(certs.stderr, /not an agent of Livery: name the address .* with --admin/)
    assert.ok(certs.stderr.length < 700)
  }
  server.close()
})

test('a program at the admin address that sends interim answers without an end is not listened to', async t => {
  const server = createTcpServer(socket => {
    const pump = (): void => {
      while (!socket.destroyed && socket.write('HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)));
    }
    socket.on('error', () => {})
    socket.on('drain', pump)
    socket.once('data', pump)
  })
  await listening(server)
  t.after(() => server.close())
  const admin = `127.0.0.1:${portOf(server)}`
  const { code, stderr } = await inProcess(['certs', '--admin', admin])
  assert.equal(code, 1)
  assert.match(stderr, /more than 16 interim answers/)
})
