/** The commands against programs at the admin address that answer wrongly: late, cut off, without end, in other types. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { listening, portOf } from '@livery/test-support'
import { openAuthority } from '../../../ca-plugins/test/google-ca-setup.ts'
import { livery } from '../../test/livery-process.ts'
import { runCommandLine } from '../cli.ts'
import { EXIT } from './exit-code.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const NOW = '2026-01-01T00:00:00.000Z'

/** A program that gives these answers, and its address. */
async function answering(t: TestContext, listener: RequestListener): Promise<string> {
  const server = await listening(createServer(listener))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `127.0.0.1:${portOf(server)}`
}

async function run(...args: readonly string[]): Promise<{ code: number; out: string; err: string }> {
  let [out, err] = ['', '']
  const code = await runCommandLine(args, {
    environment: {},
    workingDirectory: '/',
    terminal: false,
    out: text => {
      out += text
    },
    err: text => {
      err += text
    },
  })
  return { code, out, err }
}

const CUT: Readonly<Record<string, RequestListener>> = {
  'its connection is closed': (_, response) => {
    response.writeHead(202, { 'content-length': 100 })
    response.write(`Asking the CA for ${WEB} now.`, () => response.destroy())
  },
  'no more of it comes in time': (_, response) => {
    response.writeHead(202, { 'content-length': 100 })
    response.write(`Asking the CA for ${WEB} now.`)
  },
  'it would end with its connection': ({ socket }) => {
    socket.write(`HTTP/1.1 202 Accepted\r\n\r\nAsking the CA for ${WEB} now.`)
  },
}

for (const [why, listener] of Object.entries(CUT))
  test(`an answer that is cut off is none: ${why}`, async t => {
    const admin = await answering(t, listener)
    const { code, out, err } = await run('renew', WEB, '--admin', admin)
    assert.deepEqual([code, out], [EXIT.failed, ''])
    assert.match(
      err,
      /^livery: Cannot ask the agent at \S+: (?:its answer was cut off|its answer does not say where it ends|no answer within 10 s)\. /,
    )
  })

test('an answer without end takes less than 350 MB of memory', {
  skip: existsSync('/usr/bin/time') ? false : 'needs GNU time',
}, async t => {
  const admin = await answering(t, (_, response) => {
    const more = (): void => {
      while (response.write(' '.repeat(1_048_576)));
      response.once('drain', more)
    }
    more()
  })
  for (const command of ['certs', 'renew']) {
    const options = { cwd: '/', launcher: ['/usr/bin/time', '-f', '%M kB'] }
    const { code, stderr } = await livery([command, ...(command === 'renew' ? [WEB] : []), '--admin', admin], options)
    assert.equal(code, EXIT.failed)
    assert.match(stderr, /its answer is longer than \d+ MB/)
    const kb = Number(/^(\d+) kB$/m.exec(stderr)?.[1])
    t.diagnostic(`${command}: ${kb} kB`)
    assert.ok(kb < 350_000, stderr)
  }
})

const certificate = { pem: '', serialNumber: '1', validFrom: NOW, expirationTime: NOW }
const identity = { identity: WEB, state: 'Available', certChain: [certificate], rootCerts: [], renewAt: NOW }
const dump = {
  version: '1',
  certificates: [identity],
  files: [{ name: 'file-root:/a', state: 'Available' }],
  config: {},
}
const root = { fingerprint: 'aa', phase: 'trusted', isListed: true, leaves: 1, waiting: 0, waitsFor: [{ client: 'a' }] }
const times = { learnedAt: 0, settlesAt: 0, leavesAt: 0, notAfter: 0 }
const trust = { now: 0, trustDomains: [{ trustDomain: 'a', phase: 'steady', roots: [{ ...root, ...times }] }] }
const load = { connections: 1, streams: 1, names: 1 }
const stream = { socket: '/a', method: 'a', pid: 1, uid: 1, node: 'a', names: 1, since: NOW }
const streams = {
  now: NOW,
  streams: [{ ...stream, subscriptions: [{ name: 'default', access: 'granted' }] }],
  notListed: 0,
  sockets: [{ path: '/a', state: 'listening', ...load }],
  callers: [{ caller: 'uid 1', bytes: 1, ...load }],
}
const explained = {
  name: WEB,
  now: 0,
  state: 'Available',
  entries: [{ time: 0, text: 'a', count: 2, event: { kind: 'ca-error', code: 'denied', message: 'a' } }],
}

const ANSWERS: readonly (readonly [command: readonly string[], answer: object])[] = [
  [['certs'], dump],
  [['certs', '--failing', '--sort', 'expiry'], dump],
  [['certs', '--json'], dump],
  [['trust', 'status'], trust],
  [['streams'], streams],
  [['explain', WEB], explained],
]
const WRONG: readonly unknown[] = [null, 0, -1e300, '', 'x', true, [], {}, [null], [0], { a: 1 }]

/** The answer with each of its parts replaced by each wrong one, or left out. */
function* damaged(value: unknown): Generator<unknown> {
  for (const wrong of WRONG) yield wrong
  if (typeof value !== 'object' || value === null) return
  for (const [key, part] of Object.entries(value))
    for (const other of damaged(part))
      yield Array.isArray(value) ? value.with(Number(key), other) : { ...value, [key]: other }
  for (const key of Object.keys(value)) {
    const { [key]: _, ...rest } = value as Record<string, unknown>
    if (!Array.isArray(value)) yield rest
  }
}

test('an answer in other types is one sentence, from every command', async t => {
  let answer: unknown
  const admin = await answering(t, (_, response) => response.end(JSON.stringify(answer)))
  let count = 0
  for (const [command, whole] of ANSWERS) {
    answer = whole
    const { code, err } = await run(...command, '--admin', admin)
    assert.equal(code, EXIT.ok, err)
    for (answer of damaged(whole)) {
      const { code, out, err } = await run(...command, '--admin', admin)
      const text = `${command.join(' ')}: ${JSON.stringify(answer)}\n${err}`
      if (code !== EXIT.ok) assert.match(err, /^livery: the program that answers there is not an agent of Livery/, text)
      assert.doesNotMatch(out, /undefined|NaN|\[object/, text)
      count++
    }
  }
  t.diagnostic(`${count} answers`)
})

test('a certificate that cannot be read is a row of the comparison, and the others are compared', async t => {
  const authority = await openAuthority(new FakeClock())
  const pem = authority.trustBundle()[0] ?? ''
  const inline = (text: string) => ({ inline_bytes: Buffer.from(text).toString('base64') })
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
  const admin = await answering(t, (request, response) => {
    const encoded = (text: string) => Buffer.from(text).toString('base64')
    const held = { ...identity, certChain: [{ ...certificate, pem: encoded(broken) }] }
    const good = { ...identity, identity: `${WEB}2`, rootCerts: [{ ...certificate, pem: encoded(pem) }], certChain: [] }
    const isTrust = request.url?.startsWith('/trust')
    response.end(JSON.stringify(isTrust ? { now: 0, trustDomains: [] } : { ...dump, certificates: [held, good] }))
  })
  const envoy = await answering(t, (request, response) => {
    const secrets = [
      { name: 'bad', secret: { tls_certificate: { certificate_chain: inline(broken) } } },
      { name: 'bad-roots', secret: { validation_context: { trusted_ca: inline(broken) } } },
      { name: 'ROOTCA', secret: { validation_context: { trusted_ca: inline(pem) } } },
    ]
    response.end(JSON.stringify({ configs: request.url?.includes('warming') ? [] : secrets }))
  })
  assert.match((await run('certs', '--text', WEB, '--admin', admin)).err, /^livery: the agent .* cannot be read\n$/)
  const { code, out } = await run('diff', '--envoy-admin', `http://${envoy}`, '--admin', admin, '--json')
  assert.equal(code, EXIT.failed)
  const rows: readonly { name: string; state: string; detail?: string }[] = JSON.parse(out)
  assert.deepEqual(
    rows.map(({ name, state }) => [name, state]),
    [
      ['bad', 'unreadable'],
      ['bad-roots', 'unreadable'],
      ['ROOTCA', 'same'],
    ],
  )
  assert.match(rows[0]?.detail ?? '', /^Envoy has a certificate here that cannot be read/)
})
