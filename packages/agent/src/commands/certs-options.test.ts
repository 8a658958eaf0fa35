/** The options of `livery certs`, against an agent's answer and a running agent. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeIssuer } from '@livery/core/testing'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from '../../test/livery-process.ts'
import { runInProcess } from '../../test/run-in-process.ts'
import { certificateText } from './certificate-text.ts'

const ID = 'spiffe://cluster.local/ns/default/sa'
const LEAF = { pem: '', serialNumber: '3', validFrom: '', expirationTime: '' }
const leaf = (expirationTime: string) => [{ ...LEAF, expirationTime }]
const CERTIFICATES = [
  { identity: `${ID}/api`, state: 'Available', certChain: leaf('2026-01-03T00:00:00Z'), rootCerts: [] },
  {
    identity: `${ID}/db`,
    state: 'Failing',
    certChain: [],
    rootCerts: [],
    lastFailure: { code: 'denied', text: 'not allowed', since: '2026-01-01T00:00:00Z', remainingSeconds: 0 },
    problem: 'denied: not allowed',
  },
  { identity: `${ID}/web`, state: 'Available', certChain: leaf('2026-01-02T00:00:00Z'), rootCerts: [] },
]
const FILES = [
  { name: 'file-cert:/c~/k', state: 'Available: its key is not there', expirationTime: '2026-01-01T00:00:00Z' },
]

/** Runs `livery certs` against an answer of `/config_dump`. */
async function certs(certificates: readonly object[], ...args: readonly string[]) {
  const body = JSON.stringify({ certificates, files: certificates.length > 0 ? FILES : [] })
  const server = await listening(createServer((_, response) => response.end(body)))
  const admin = `127.0.0.1:${portOf(server)}`
  try {
    return await runInProcess(['certs', ...args, '--admin', admin], '/')
  } finally {
    server.close()
  }
}

function names(json: string): readonly string[] {
  const listed: readonly { readonly identity?: string; readonly name?: string }[] = JSON.parse(json)
  return listed.map(({ identity, name }) => (identity ?? name ?? '').replace(`${ID}/`, ''))
}

test('--failing shows only what fails, and says so if nothing does', async () => {
  const failing = await certs(CERTIFICATES, '--failing', '--json')
  assert.deepEqual(names(failing.stdout), ['db', 'file-cert:/c~/k'])
  const table = await certs(CERTIFICATES, '--failing')
  assert.match(
    table.stdout,
    /\/db .*\n {2}denied: not allowed\n {2}failing for \d+\w+, an attempt is queued or in flight\n/,
  )
  assert.doesNotMatch(table.stdout, /sa\/web/)
  const [healthy] = CERTIFICATES
  const server = await certs([{ ...healthy, problem: 'preflight-failed: clients would refuse it' }], '--failing')
  assert.match(server.stdout, /\/api .*\n {2}preflight-failed/)
})

test('--sort expiry begins with what ends first, and ends with what has no certificate', async () => {
  const sorted = await certs(CERTIFICATES, '--sort', 'expiry', '--json')
  assert.deepEqual(names(sorted.stdout), ['file-cert:/c~/k', 'web', 'api', 'db'])
  const unsorted = await certs(CERTIFICATES, '--json')
  assert.deepEqual(names(unsorted.stdout), ['api', 'db', 'web', 'file-cert:/c~/k'])
  const wrong = await certs(CERTIFICATES, '--sort', 'age')
  assert.equal(wrong.code, 2)
  assert.match(wrong.stderr, /Allowed choices are name, expiry/)
})

test('--text of what is not held, is in files or has no certificate says what to do', async () => {
  for (const [name, message] of [
    ['web', /"web" is not held\. Did you mean spiffe:\S+\/web\? livery certs lists the names/],
    ['nobody', /"nobody" is not held\. livery certs lists the names/],
    ['file-cert:/c~/k', /is in files\. Run: openssl x509/],
    [`${ID}/db`, /has no certificate now \(Failing\)\. livery explain spiffe/],
  ] as const) {
    const { code, stdout, stderr } = await certs(CERTIFICATES, '--text', name)
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, message)
  }
  const watched = await certs(CERTIFICATES, '--watch', '--json')
  assert.equal(watched.code, 2)
})

test('a name in a certificate cannot write to the terminal', async () => {
  const { pem } = await makeIssuer('CN=evil\u001b[2J\u202e', Date.now())
  const text = certificateText({ certChain: [{ ...LEAF, pem: Buffer.from(pem).toString('base64') }] })
  assert.match(text, /Issuer: CN=.*evil/)
  assert.doesNotMatch(text, /[^\n\x20-\x7e]/)
})

test('a line break in a name of a certificate begins no line', async () => {
  const name = Buffer.from('evil\r\nSubject: CN=forged\r\n\u2028  x')
  // A value as its DER in hexadecimal (RFC 4514, section 2.4): a UTF8String.
  const value = Buffer.concat([Buffer.of(0x0c, name.length), name])
  const { pem } = await makeIssuer(`CN=#${value.toString('hex')}`, Date.now())
  const text = certificateText({ certChain: [{ ...LEAF, pem: Buffer.from(`forged\n${pem}`).toString('base64') }] })
  assert.match(text, /^ +Subject: CN=evil.* Subject: CN=forged x$/m)
  assert.doesNotMatch(text, /^ *(?:Subject: CN=)?forged/m)
})

test('no text of an agent, a CA or an error does more to a terminal than print', async () => {
  const evil = 'a\u001b[2J\u009b31m\u202eb\nc'
  const runs = [
    await certs([
      { ...CERTIFICATES[1], state: evil, lastFailure: { ...CERTIFICATES[1]?.lastFailure, code: evil, text: evil } },
    ]),
    await certs([{ ...CERTIFICATES[1], identity: evil }], '--text', evil),
    await runInProcess(['check-config', '--config', `/${evil}`], '/'),
    await runInProcess(['wait', '--socket', `/${evil}`, '--timeout', '1ms', '--json'], '/'),
  ]
  for (const { stdout, stderr } of runs) {
    assert.match(stdout + stderr, /a.*\[2J/)
    assert.doesNotMatch(stdout + stderr, /[^\n\P{C}]/u)
  }
})

test('--text labels names as openssl does', () => {
  const openssl = (command: string, input = '') => {
    const { status, stdout, stderr } = spawnSync('openssl', command.split(' '), { input, encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    return stdout
  }
  const names = `URI:${ID}/web,DNS:web.example,email:web@example,IP:127.0.0.1`
  const key = 'ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null'
  const pem = openssl(`req -x509 -newkey ${key} -subj /CN=web -addext subjectAltName=${names}`)
  const labelled = openssl('x509 -noout -ext subjectAltName', pem).trim().split('\n').at(-1)?.trim().split(', ') ?? []
  assert.equal(labelled.length, 4)
  const text = certificateText({ certChain: [{ ...LEAF, pem: Buffer.from(pem).toString('base64') }] })
  for (const name of labelled) assert.ok(text.includes(`  ${name.replace(':', ': ')}\n`), `${name}\n${text}`)
})

const CONFIG = `ca: { plugin: embedded }
admin: { address: "127.0.0.1:0" }
drain: 100ms
identities: [{ id: ${ID}/web, socket: web.sock }]
`

test('a running agent: --text has what openssl reads of the certificate, never a key, and --watch ends with Ctrl-C', async t => {
  const cwd = temporaryFolder(t)
  await writeFile(join(cwd, 'livery.yaml'), CONFIG)
  await using agent = new LiveryProcess(['run'], { cwd })
  const admin = ['--admin', await agent.admin()]
  assert.equal((await livery(['wait', '--socket', 'web.sock', '--name', 'default'], { cwd })).code, 0)

  const { code, stdout } = await livery(['certs', '--text', `${ID}/web`, ...admin], { cwd })
  assert.equal(code, 0)
  assert.doesNotMatch(stdout, /PRIVATE KEY/)
  assert.doesNotMatch(stdout, /[^\n\x20-\x7e]/)
  const pem = /-----BEGIN CERTIFICATE-----[\s\S]*-----END CERTIFICATE-----\n/.exec(stdout)?.[0] ?? ''
  const openssl = spawnSync('openssl', ['x509', '-noout', '-serial', '-ext', 'subjectAltName,basicConstraints'], {
    input: pem,
    encoding: 'utf8',
  })
  assert.equal(openssl.status, 0, openssl.stderr)
  const serial = /serial=([0-9A-F]+)/.exec(openssl.stdout)?.[1]?.toLowerCase() ?? 'none'
  const hex = stdout.replace(/\s+/g, '')
  assert.ok(hex.includes(serial), serial)
  for (const field of [
    'Version: v3',
    'Signature Algorithm:',
    'Not Before:',
    'Not After:',
    'Subject Public Key Info:',
    `URI: ${ID}/web`,
    'Subject Alternative Name',
    'Key Usage',
    'Basic Constraints',
    'Authority Key Identifier',
  ])
    assert.ok(stdout.includes(field), `${field}\n${stdout}`)

  await using watch = new LiveryProcess(['certs', '--watch', ...admin], { cwd })
  const { stdout: output } = watch.child
  assert.ok(output)
  while (!/sa\/web[\s\S]*sa\/web/.test(watch.stdout)) await once(output, 'data')
  watch.kill('SIGINT')
  assert.deepEqual(await watch.ended, { code: 0, signal: null })
  assert.equal(watch.stderr, '')
})
