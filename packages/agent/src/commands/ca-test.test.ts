/** `livery ca test` against real CAs: what it prints, and how it ends. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { SystemClock } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { startIstioCa } from '../../test/istio-ca.ts'
import { runInProcess } from '../../test/run-in-process.ts'
import { reportText } from './ca-test.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

function caTest(workingDirectory: string, ...args: readonly string[]) {
  return runInProcess(['ca', 'test', ...args], workingDirectory)
}

interface JsonReport {
  readonly plugin: string
  readonly identity: string
  readonly failed: number
  readonly results: readonly { readonly outcome: string; readonly detail: string }[]
}

test('a plugin that works passes without a configuration: exit 0, a case a line, progress on standard error', async t => {
  const { code, stdout, stderr } = await caTest(temporaryFolder(t), 'embedded', '--identity', WEB, '--parallel', '4')
  assert.equal(code, 0, stdout)
  assert.match(stdout, /^contract\n {2}passed +\d+ ms {2}a certificate is for the identity/)
  assert.match(stdout, /^\d+ passed, 0 failed, \d+ skipped in \d+\.\d s$/m)
  assert.match(stderr, /^livery: asking the CA of embedded for spiffe:.*web\n[.-]+\n$/)
})

test('a live CA is asked with the connection and credentials of the configuration, and a wrong token fails with the reason', async t => {
  const directory = temporaryFolder(t)
  using clock = new SystemClock()
  await using server = await startIstioCa(clock, WEB)
  const at = (name: string) => join(directory, name)
  await writeFile(at('root.pem'), server.root)
  await writeFile(at('good.token'), 'good')
  await writeFile(at('bad.token'), 's3cret')
  const ca = `ca: { plugin: embedded, address: "${server.address}", rootCert: root.pem, tokenFile: bad.token }\n`
  await writeFile(at('livery.yaml'), `${ca}identities: [{ id: "${WEB}", tokenFile: good.token }]\n`)

  const good = await caTest(directory, 'citadel', '--json', '--parallel', '4')
  assert.equal(good.code, 0, good.stdout)
  const report: JsonReport = JSON.parse(good.stdout)
  assert.deepEqual([report.plugin, report.identity, report.failed], ['citadel', WEB, 0])

  await writeFile(at('good.token'), 's3cret')
  const bad = await caTest(directory, 'citadel', '--parallel', '4')
  assert.equal(bad.code, 1)
  assert.match(bad.stdout, /FAILED +\d+ ms {2}.*\n {20}.*Check the expiry, the audience and the cluster/)
  assert.doesNotMatch(bad.stdout + bad.stderr, /s3cret/)
})

test('a wrong argument exits with 2, a configuration that cannot be loaded with 78', async t => {
  const directory = temporaryFolder(t)
  await writeFile(join(directory, 'livery.yaml'), 'ca: { plugin: citadel, address: "ca:15012", rootCert: system }\n')
  const cases: readonly [readonly string[], number, RegExp][] = [
    [[], 2, /there is no identity to ask for: name one with --identity/],
    [['citadel'], 2, /there is no identity to ask for: name one with --identity/],
    [
      ['citadel', '--identity', 'web'],
      2,
      /--identity "web" is not a SPIFFE ID: it does not start with "spiffe:\/\/"\./,
    ],
    [['citadel', '--identity', WEB, '--parallel', '0'], 2, /--parallel "0" is not a whole number/],
    [
      ['citadle', '--identity', WEB],
      78,
      /flag \[plugin\]: ca\.plugin: "citadle" .* Did you mean the built-in citadel\?/,
    ],
    [['embedded', '--identity', WEB], 78, /livery\.yaml:1: ca\.address: unknown key/],
    [['citadel', '--config', 'none.yaml'], 78, /none\.yaml: the file does not exist/],
  ]
  for (const [args, expected, message] of cases) {
    const { code, stdout, stderr } = await caTest(directory, ...args)
    assert.deepEqual([code, stdout], [expected, ''], stderr)
    assert.match(stderr, message)
  }
})

test('the report shows the reason under each failed case and beside each skipped one', () => {
  const text = reportText({
    results: [
      { group: 'ttl', name: 'it lives', outcome: 'passed', detail: '', ms: 1234 },
      { group: 'ttl', name: 'it ends', outcome: 'failed', detail: 'it did not\nat all', ms: 5 },
      { group: 'roots', name: 'in order', outcome: 'skipped', detail: 'it has none', ms: 0 },
    ],
    passed: 1,
    failed: 1,
    skipped: 1,
  })
  const lines = [
    'ttl',
    '  passed   1234 ms  it lives',
    '  FAILED      5 ms  it ends',
    '                    it did not',
    '                    at all',
    'roots',
    '  skipped           in order: it has none',
    '',
    '1 passed, 1 failed, 1 skipped in 1.2 s',
    '',
  ]
  assert.equal(text, lines.join('\n'))
})
