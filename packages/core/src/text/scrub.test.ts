/** Removal of secrets from the texts of plugins and CAs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CAError } from '../contract/ca-client.ts'
import { asShownCAError } from '../contract/ca-failure.ts'
import { hideUserinfo, oneLine, printable, scrub } from './scrub.ts'

const BASE64 = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj'

test('nothing that looks like a credential is left', () => {
  const hidden: readonly (readonly [string, string])[] = [
    ['sent Bearer abc.def to', 'sent bearer [token] to'],
    ['Authorization: Basic dXNlcjpwYXNz!', 'authorization: [secret]'],
    ['xeyJhbGciOi.eyJzdWI', 'x[token]'],
    ['vault hvs.CAESIJlU9JMYEhOPYv4igdhm9PnZDrabYTobQ4Ymnlq1qY', 'vault [token]'],
    ['login password=hunter2&x=1', 'login password=[secret]&x=1'],
    ['{"password": "hunter2"}', '{"password"=[secret]"}'],
    ['client_secret=hunter2 x', 'client_secret=[secret] x'],
    ['{"access_token":"abc","x":1}', '{"access_token=[secret]","x":1}'],
    ['https://user:hunter2@ca.example/x', 'https://[secret]@ca.example/x'],
    ['https://hunter2@ca.example/x', 'https://[secret]@ca.example/x'],
    ['at "https://user:hun/t@er2@ca.example/x"', 'at "https://[secret]@ca.example/x"'],
    [`-----BEGIN EC PRIVATE KEY-----\n${BASE64}\n-----END EC PRIVATE KEY-----\nx`, '[private key] x'],
    [`-----BEGIN PRIVATE KEY-----\n${BASE64}`, '[private key]'],
    [`-----BEGIN CERTIFICATE-----\n${BASE64}\n-----END CERTIFICATE----- x`, '[PEM] x'],
    [`key ${BASE64} x`, 'key [removed] x'],
    ['eyJhb\u200bGciOi.eyJzdWI', '[token]'],
  ]
  for (const [text, shown] of hidden) assert.equal(scrub(text), shown)
})

test('identities, paths, hashes and sentences are left unchanged', () => {
  for (const text of [
    'spiffe://cluster.local/ns/default/sa/a-service-account-with-a-very-long-name-0123456789',
    '/etc/livery/a/rather/long/path/to/some/certificate-of-a-ca-2026.pem: the tokenFile is missing',
    'sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
    'https://ca.example:8443/accounts/web@project.example:sign',
    'https://ca.example/accounts/web@project.example:sign',
    'token: expired. Basic constraints of the CA are missing',
  ])
    assert.equal(scrub(text), text)
})

test('the part of an address before its host is hidden, and other values are unchanged', () => {
  const addresses = [
    ['https://user:hunter2@ca.example:8443/x', 'https://[secret]@ca.example:8443/x'],
    ['https://hunter2@ca.example', 'https://[secret]@ca.example'],
    ['//user:hunter2@ca.example', '//[secret]@ca.example'],
    ['https://user:hunter2 /?#@"ca@[::1]:8443', 'https://[secret]@[::1]:8443'],
    ['https://user:12/hunter@ca.example', 'https://[secret]@ca.example'],
    ['user:hunter2@ca.example', '[secret]@ca.example'],
    ['hunter2@ca.example:15012', '[secret]@ca.example:15012'],
  ] as const
  for (const [value, shown] of addresses) assert.equal(hideUserinfo(value), shown)
  for (const value of [
    'https://ca.example:8443/v1',
    'ca.example:15012',
    'unix:///run/spire@1/agent.sock',
    'unix:/run/livery@1.sock',
    '/etc/livery/web@1:2.pem',
    'web@project.iam.example',
  ])
    assert.equal(hideUserinfo(value), value)
  const started = process.threadCpuUsage()
  for (const part of ['//', '//a', ':', 'a:']) hideUserinfo(`${part.repeat(1_000_000 / part.length)}@`)
  assert.ok(cpuMsSince(started) < 1_000)
})

test('it is one line without control characters, directions and halves of characters', () => {
  assert.equal(scrub('a\u001b[31mred\u009b0m\r\n\u2028b\u2029\u202eevil\u2066\ud800\u0000'), 'a [31mred 0m b evil')
  assert.equal(oneLine('\tx\u0007y '), 'x y')
  assert.equal(printable(' a\tb\n  \u001b[31mred\u009b\r\n\u2028c\u202e\ud800\u007f'), ' a\tb\n   [31mred \n c ')
})

test('whatever was thrown has a text, and takes no longer than others', () => {
  const cyclic = new Error('cycle')
  cyclic.cause = cyclic
  const evil = {
    toString() {
      throw new Error('Bearer abc')
    },
  }
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  assert.equal(scrub(cyclic), 'cycle')
  assert.equal(scrub(Symbol('x')), 'Symbol(x)')
  for (const thrown of [
    evil,
    Object.create(null),
    revoked.proxy,
    Object.defineProperty(new Error(), 'message', { get: () => evil.toString() }),
  ])
    assert.match(scrub(thrown), /has no text/)
  const started = process.threadCpuUsage()
  for (const part of [
    'x',
    ' ',
    '.',
    'a-',
    'Bearer ',
    'eyJ',
    'eyJ.',
    '-----BEGIN ',
    '-----BEGIN PRIVATE KEY-----',
    'password',
    'token="',
    '://',
    '://a:',
    'Ab1',
    '\u001b',
    '\ud800',
    'authorization:',
  ])
    assert.ok(scrub(part.repeat(100_000_000 / part.length)).length <= 1_000)
  assert.ok(cpuMsSince(started) < 15_000)
})

test('nothing of a known secret is left, however the peer that quotes it has encoded it', () => {
  const secret = 'hvs.Ab/1+c=="d&e'
  const html = secret.replaceAll('&', '&#38;').replaceAll('"', '&#x22;')
  for (const form of [
    secret,
    encodeURIComponent(secret),
    encodeURIComponent(secret).toLowerCase().replace('ab', 'Ab'),
    JSON.stringify(secret).slice(1, -1),
    secret.replaceAll('/', '\\/').replaceAll('+', '\\u002B').replaceAll('=', '\\x3d'),
    html,
    Buffer.from(secret).toString('hex'),
    Buffer.from(secret).toString('hex').toUpperCase(),
  ])
    assert.equal(scrub(`it was <${form}>`, { secrets: [secret] }), 'it was <[secret]>', form)
  for (const before of ['', 'u:', 'u'])
    for (const encoding of ['base64', 'base64url'] as const) {
      const form = Buffer.from(`${before}s3cret of 16 by:`).toString(encoding)
      const shown = scrub(`it was ${form}`, { secrets: ['s3cret of 16 by:'] })
      assert.match(shown, /^it was .{0,3}\[secret\].{0,3}$/, form)
    }
})

test('a text stays readable beside a secret of fewer than four characters, which sources of tokens refuse', () => {
  const text = 'the request at /v1 is not allowed'
  for (const secrets of [[''], ['a'], ['is'], ['not']]) assert.equal(scrub(text, { secrets }), text)
  assert.equal(scrub('it was root', { secrets: ['root'] }), 'it was [secret]')
})

test('a secret at the end of what is looked at is not shown in part', () => {
  const text = `${'x '.repeat(8_188)}s.secret-token-of-the-plugin and more`
  assert.doesNotMatch(scrub(text, { maxLength: 20_000, secrets: ['s.secret-token-of-the-plugin'] }), /s\.|token/)
})

test('an error of a plugin is shown with its checked code and scrubbed text, and nothing else of it', () => {
  const cause = new Error('Bearer abc')
  const shown = asShownCAError(new CAError('denied', 'no\nBearer abc', { retryAfterMs: 5, cause }))
  assert.deepEqual(
    [shown.code, shown.message, shown.retryable, shown.retryAfterMs, shown.cause],
    ['denied', 'no bearer [token]', false, 5, undefined],
  )
  const forged = Object.assign(new CAError('denied', 'x'), { code: '\u001b[2J', retryAfterMs: Number.NaN })
  assert.deepEqual([asShownCAError(forged).code, asShownCAError(forged).message], ['unavailable', 'x'])
  const trap = Object.defineProperty(new CAError('denied', 'x'), 'code', {
    get() {
      throw new Error('no')
    },
  })
  assert.equal(asShownCAError(trap, 'before: ').message, 'before: x')
  assert.equal(asShownCAError('Bearer abc').message, 'bearer [token]')
})

test('a secret that a CA has chosen, of many characters that can be escaped, takes no longer than others and is hidden', () => {
  const started = process.threadCpuUsage()
  for (const length of [1_000, 20_000])
    for (const character of ['%', '-', '&', '\\']) {
      const secrets = [`${character.repeat(length)}!`]
      for (const text of [character.repeat(16_000), `\\${character}`.repeat(8_000), '&#45;'.repeat(3_000)])
        assert.ok(scrub(text, { secrets }).length <= 1_000)
    }
  const long = 'a-'.repeat(3_000)
  assert.equal(scrub(`it was ${long.replaceAll('-', '%2D')}!`, { secrets: [long] }), 'it was [secret]!')
  assert.ok(cpuMsSince(started) < 2_000)
})

test('a secret with something like an escape in it is hidden where only its other characters are escaped', () => {
  const secret = 'one%41/two&#66;"three'
  for (const form of [JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), secret.replaceAll('/', '\\/')])
    assert.equal(scrub(`it was <${form}>`, { secrets: [secret] }), 'it was <[secret]>', form)
})

/** Not the time of a busy machine. */
function cpuMsSince(started: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(started)
  return (user + system) / 1_000
}
