/** Errors of a configuration that only the plugins can find: each with its line, before anything is created. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { writePluginModule } from '../../test/plugin-module.ts'
import { loadIsolatedCAPlugin } from '../plugin/isolated-plugin.ts'
import { ConfigError } from '../schema/config-error.ts'
import { faultText } from '../schema/fault.ts'
import { loadConfig } from './load.ts'

/** Resolves `once` when the statement `report` of a plugin has run: its process has no other way to say so before it hangs. */
async function serveCalls(t: TestContext) {
  const server = await listening(createServer((_, response) => void response.end()))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const port = portOf(server)
  return { once: once(server, 'request'), report: `await fetch('http://127.0.0.1:${port}')` }
}

/** `ca` is the section in YAML; each fault with its line. */
async function refusals(folder: string, ca: string): Promise<readonly string[]> {
  const file = join(folder, 'livery.yaml')
  await writeFile(file, `ca: { ${ca} }\nidentities: ["spiffe://cluster.local/a"]\nsockets: [{ path: /s }]\n`)
  try {
    await loadConfig({ file, environment: {}, workingDirectory: folder, terminal: false })
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error))
    return error.problems.map(
      ({ origin, path, ...fault }) => `${'line' in origin ? origin.line : origin.kind} ${path}: ${faultText(fault)}`,
    )
  }
  return []
}

const PIN = 'ab'.repeat(32)
const POOL = 'projects/p/locations/l/caPools/c'

/** `at` is the key in the second line. */
const BUILT_IN: readonly (readonly [ca: string, at: string])[] = [
  ['plugin: citadel, address: "ca:15012", rootCert: system,\n headers: { X-bin: s3cret }', 'headers'],
  [`plugin: step-ca, address: "https://ca", rootCert: system,\n fingerprint: ${PIN}`, 'fingerprint'],
  ['plugin: step-ca, address: "https://ca",\n passwordFile: /p', 'passwordFile'],
  ['plugin: kubernetes-csr, signerName: a.example/b, signerRoots: r.pem,\n context: c', 'context'],
  ...['tokenFile: t', 'credentials: { source: gce-metadata }'].map(
    given => [`plugin: google-ca, pool: ${POOL}, ${given},\n credentialsFile: /wif.json`, 'credentialsFile'] as const,
  ),
  [`plugin: google-ca, service: mesh-ca,\n pool: ${POOL}`, 'pool'],
  ['plugin: file-mount,\n layout: kubernetes-tls', 'layout'],
]
for (const [ca, at] of BUILT_IN)
  test(`refused: ${ca.replace('\n', '')}`, async t => {
    const [found = '', ...others] = await refusals(temporaryFolder(t), ca)
    assert.deepEqual([found.split(':')[0], others], [`2 ca.${at}`, []])
    assert.doesNotMatch(found, /s3cret/)
  })

test('each CA of a list is checked by its own plugin, and refused at its own place', async t => {
  const ca = `plugin: failover,
    cas: [{ plugin: citadel, address: "a:15012", rootCert: r,
    headers: { te: x } }, { plugin: embedded }, { plugin: step-ca, address: "https://ca",
    passwordFile: /p }]`
  assert.deepEqual(
    (await refusals(temporaryFolder(t), ca)).map(text => text.split(':')[0]),
    ['3 ca.cas[0].headers', '4 ca.cas[2].passwordFile'],
  )
})

test('a missing key is reported at the line of its section', async t => {
  const [found] = await refusals(temporaryFolder(t), 'plugin: google-ca,\n tokenFile: t')
  assert.match(found ?? '', /^1 ca\.pool: /)
})

const ACME = `needs: ['tls', 'credentials'],
  options: { low: { type: 'duration', default: '1s', description: '' }, high: { type: 'duration', description: '' } },`

test('a module is asked in its process, with what it gets and which keys of the agent stand beside', async t => {
  const folder = temporaryFolder(t)
  const says = `throw new TypeError(JSON.stringify([config, [...siblings]]))`
  await writePluginModule(folder, { fields: `${ACME} check(config, siblings) { ${says} },` })
  const [all, none] = [
    await refusals(
      folder,
      'plugin: ./acme.mjs, high: 2s, rootCert: r, tokenFile: t, credentials: { source: gce-metadata }',
    ),
    await refusals(folder, 'plugin: ./acme.mjs'),
  ]
  assert.deepEqual(all, ['1 ca: [{"low":1000,"high":2000},["rootCert","tokenFile","credentials"]]'])
  assert.deepEqual(none, ['1 ca: [{"low":1000},[]]'])
})

const DOES: readonly (readonly [what: string, does: string, says: readonly string[]])[] = [
  ['lets it through', '', []],
  ['names its option', `throw new OptionError('low', 'low is over high')`, ['2 ca.low: low is over high']],
  [
    'throws a string',
    `throw 'boom'`,
    [
      '1 ca: The plugin acme failed to check its configuration: it threw "boom". Fix it, or install a version that works.',
    ],
  ],
  [
    'ends the process',
    `process.exit(3)`,
    [
      '1 ca: The plugin acme failed to check its configuration: it ended its process (exit code 3). Fix it, or install a version that works.',
    ],
  ],
]
for (const [what, does, says] of DOES)
  test(`the check of a module that ${what}`, async t => {
    const folder = temporaryFolder(t)
    const onLoad = `import { OptionError } from '@livery/core/plugin'`
    await writePluginModule(folder, { onLoad, fields: `${ACME} check() { ${does} },` })
    assert.deepEqual(await refusals(folder, 'plugin: ./acme.mjs,\n low: 2s'), says)
  })

test('the check of a module that never ends is given up, and its process with it', async t => {
  const folder = temporaryFolder(t)
  const called = await serveCalls(t)
  const module = await writePluginModule(folder, { fields: `async check() { ${called.report}; for (;;); },` })
  const clock = new FakeClock()
  const plugin = await loadIsolatedCAPlugin(module, {}, clock)
  assert.ok('check' in plugin)
  const checking: Promise<unknown> = assert.rejects(async () => await plugin.check?.({}, new Set()), {
    message: 'it gave no answer within 30 s',
  })
  await called.once
  await clock.advance(30_000)
  await checking
  assert.deepEqual(clock.deadlines(), [])
})

for (const what of ['check', 'loading'])
  test(`the ${what} of a module is given up with the configuration that it is loaded for, and its process with it`, async t => {
    const folder = temporaryFolder(t)
    const called = await serveCalls(t)
    const hangs = `${called.report}; for (;;);`
    const options = what === 'check' ? { fields: `async check() { ${hangs} },` } : { onLoad: hangs }
    const module = await writePluginModule(folder, options)
    const clock = new FakeClock()
    const stop = new AbortController()
    const asked = async (): Promise<unknown> => {
      const plugin = await loadIsolatedCAPlugin(module, {}, clock, stop.signal)
      return 'faults' in plugin ? plugin.faults.map(faultText) : await plugin.check?.({}, new Set())
    }
    const answer = asked().catch((error: Error) => [`rejected: ${error.message}`])
    await called.once
    stop.abort(new Error('never mind'))
    assert.match(String(await answer), /^rejected: never mind$|^cannot be loaded: never mind\./)
    assert.deepEqual(clock.deadlines(), [])
  })

test('a source of credentials from a module is asked as a plugin is', async t => {
  const folder = temporaryFolder(t)
  const check = `check({ word }) { if (word === 'shut') throw new TypeError('Cannot use word "shut": it opens nothing.') }`
  await writeFile(
    join(folder, 'source.mjs'),
    `export const plugin = { apiVersion: 1, name: 'word', create() {}, ${check},
      options: { word: { type: 'string', description: '' } } }`,
  )
  const ca = (word: string) =>
    `plugin: citadel, address: "ca:15012", rootCert: system,\n credentials: { source: ./source.mjs, word: ${word} }`
  assert.deepEqual(await refusals(folder, ca('open')), [])
  assert.deepEqual(await refusals(folder, ca('shut')), ['2 ca.credentials: Cannot use word "shut": it opens nothing.'])
})
