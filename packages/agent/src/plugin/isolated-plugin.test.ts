/** Plugins from modules, as the configuration names them: what is found, what is refused and how. */
import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { pluginContext } from '@livery/ca-plugins/testing'
import {
  AGENT_OPTION_NAMES,
  type ConfigOf,
  type CredentialSource,
  type PluginOptions,
  SystemClock,
} from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { type PluginModuleOptions, writePluginModule } from '../../test/plugin-module.ts'
import { type LoadedConfig, loadConfig } from '../config/load.ts'
import { configJson, printConfig } from '../config/print.ts'
import { NEEDED_KEYS } from '../schema/common-ca-keys.ts'
import { ConfigError } from '../schema/config-error.ts'
import { Location } from '../schema/config-tree.ts'
import { faultText } from '../schema/fault.ts'
import { USER_KEY } from './user-key.ts'

async function load(folder: string, ca: object): Promise<LoadedConfig> {
  const file = join(folder, 'livery.yaml')
  await writeFile(file, JSON.stringify({ ca, identities: ['spiffe://cluster.local/a'], sockets: [{ path: '/s' }] }))
  return await loadConfig({ file, environment: {}, workingDirectory: '/', terminal: false })
}

/** The lines without the folder, the file and its line. */
async function refusal(folder: string, ca: object): Promise<readonly string[]> {
  try {
    await load(folder, ca)
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error))
    return error.problems.map(({ path, ...fault }) => `${path}: ${faultText(fault).replaceAll(folder, '…')}`)
  }
  return assert.fail('it was accepted')
}

test('a module is found from the folder of the configuration: by path, by package, by default export, and as TypeScript', async t => {
  const folder = temporaryFolder(t)
  await writePluginModule(folder)
  const pack = join(folder, 'node_modules', '@acme', 'ca')
  await mkdir(pack, { recursive: true })
  // An export that require() would not find.
  await writeFile(join(pack, 'package.json'), '{ "type": "module", "exports": { "import": "./index.js" } }')
  await writePluginModule(pack, { fields: `name: 'packed',` }, 'index.js')
  const plain = `apiVersion: 1, name: 'plain', capabilities: { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['rsa-2048'] }, options: {}, create() {}`
  await writeFile(join(folder, 'default.mjs'), `export default { ${plain} }`)
  await writeFile(
    join(folder, 'typed.ts'),
    `const text: string = 'typed'\nexport const plugin = { ${plain}, name: text }`,
  )
  const names: string[] = []
  for (const plugin of ['./acme.mjs', join(folder, 'acme.mjs'), '@acme/ca', './default.mjs', './typed.ts'])
    names.push((await load(folder, { plugin })).config.ca.plugin.name)
  assert.deepEqual(names, ['acme', 'acme', 'packed', 'plain', 'typed'])
})

const OPTIONS = `options: {
  mode: { type: 'string', default: 'a', problem: value => value === 'odd' ? 'is odd. Write a' : undefined, description: '' },
  fails: { type: 'string', problem: () => { throw new Error('oops') }, description: '' },
  pin: { type: 'string', required: true, secret: true, description: '' },
  where: { type: 'path', description: '' },
  each: { type: 'objects', description: '', options: {
    at: { type: 'string', required: true, problem: value => /^\\d+$/.test(value) ? undefined : 'is not a number', description: '' },
  } },
  wait: { type: 'duration', default: '2s', description: '' },
},`

test('its options are read like the options of a built-in plugin, and its secrets shown nowhere', async t => {
  const folder = temporaryFolder(t)
  await writePluginModule(folder, { fields: `${OPTIONS} needs: ['credentials'],` })
  const loaded = await load(folder, {
    plugin: './acme.mjs',
    pin: 's3cret',
    where: 'here',
    each: [{ at: '1' }],
    tokenFile: 'token',
  })
  const { options, tokenFile } = loaded.config.ca
  assert.deepEqual(options, {
    mode: 'a',
    pin: 's3cret',
    where: join(folder, 'here'),
    each: [{ at: '1' }],
    wait: 2_000,
  })
  assert.equal(tokenFile, join(folder, 'token'))
  assert.equal(new Location(loaded.root, ['ca', 'wait']).origin.kind, 'default')
  const shown = printConfig(loaded) + JSON.stringify(configJson(loaded))
  assert.match(shown, /pin: "\*\*\*"/)
  assert.doesNotMatch(shown, /s3cret/)
})

/** `parts`: of the text of each fault. */
const MODULE_REFUSALS: readonly (readonly [
  what: string,
  ca: object,
  module: PluginModuleOptions,
  parts: readonly string[],
])[] = [
  ['no such file', { plugin: './none.mjs' }, {}, ['…/none.mjs']],
  ['no such package', { plugin: '@acme/none' }, {}, ['from …']],
  ['another name of a built-in', { plugin: 'istiod' }, {}, ['Did you mean the built-in citadel?']],
  ['nearly a built-in', { plugin: 'citadle' }, {}, ['Did you mean the built-in citadel?']],
  ['is not a file', { plugin: 'node:fs' }, {}, ['"node:fs"']],
  ['throws while it is loaded', {}, { onLoad: `throw new Error('no luck\\nat all')` }, ['no luck. ']],
  ['throws a string while it is loaded', {}, { onLoad: `throw 'no luck'` }, ['"no luck"']],
  ['ends the process while it is loaded', {}, { onLoad: `process.exit(4)` }, ['exit code 4']],
  [
    'crashes while it is loaded',
    {},
    { onLoad: `setImmediate(() => { throw new Error('late') }); await new Promise(() => {})` },
    ['crashed: late'],
  ],
  ['has another apiVersion', {}, { fields: 'apiVersion: 2,' }, ['apiVersion is 2']],
  [
    'has wrong fields',
    {},
    {
      fields: `name: 'A B', capabilities: { roots: 'all', ttl: 'clamped', san: 'csr', keyTypes: ['dsa'] }, options: [], create: 1, needs: ['tsl'],`,
    },
    ['name is', 'options is', 'create is', 'needs.0 is', 'capabilities.roots is', 'capabilities.keyTypes.0 is'],
  ],
  ['has no capabilities', {}, { fields: 'capabilities: undefined,' }, ['capabilities is missing']],
  [
    'has options that cannot be',
    {},
    {
      fields: `options: { tokenFile: { type: 'path', description: '' }, wait: { type: 'duration', default: 5, description: '' } },`,
    },
    ['options.tokenFile is', 'options.wait.default is'],
  ],
  [
    'has a default that its option refuses',
    {},
    { fields: `options: { wait: { type: 'duration', max: '10s', default: '1m', description: '' } },` },
    ['options.wait.default is'],
  ],
  [
    'has an option of no type',
    {},
    { fields: `options: { a: { type: 'text', description: '' } },` },
    ['options.a.type is "text"'],
  ],
]

for (const [what, ca, module, parts] of MODULE_REFUSALS)
  test(`refused: a module that ${what}`, async t => {
    const folder = temporaryFolder(t)
    await writePluginModule(folder, module)
    const lines = await refusal(folder, { plugin: './acme.mjs', ...ca })
    assert.equal(lines.length, parts.length)
    for (const [index, part] of parts.entries()) {
      assert.ok(lines[index]?.startsWith('ca.plugin: '), lines[index])
      assert.ok(lines[index]?.includes(part), lines[index])
    }
  })

test('the names that no option can have are the keys that the agent takes', () => {
  const own = ['plugin', ...Object.keys(USER_KEY), ...Object.values(NEEDED_KEYS).flat()]
  assert.deepEqual([...AGENT_OPTION_NAMES.ca].sort(), own.sort())
  assert.deepEqual([...AGENT_OPTION_NAMES.credentials].sort(), ['source', ...Object.keys(USER_KEY)].sort())
})

test('refused: a module without the export, or with another thing by its name', async t => {
  const folder = temporaryFolder(t)
  await writeFile(join(folder, 'other.mjs'), 'export const a = 1, b = 2')
  await writeFile(join(folder, 'text.mjs'), 'export const plugin = "text"')
  for (const plugin of ['./other.mjs', './text.mjs']) {
    const [line = '', ...others] = await refusal(folder, { plugin })
    assert.deepEqual([line.startsWith(`ca.plugin: "${plugin}" exports `), others], [true, []])
  }
})

test('refused: each wrong value for the options of a module', async t => {
  const folder = temporaryFolder(t)
  await writePluginModule(folder, { fields: OPTIONS })
  for (const [given, key] of [
    [{}, 'ca.pin'],
    [{ pin: 's3cret', mode: 'odd' }, 'ca.mode'],
    [{ pin: 's3cret', fails: 'x' }, 'ca.fails'],
    [{ pin: 's3cret', each: [{ at: '1' }, { at: 'x' }] }, 'ca.each[1].at'],
    [{ pin: 's3cret', wait: 'long' }, 'ca.wait'],
    [{ pin: ['s3cret'] }, 'ca.pin'],
    [{ pin: 's3cret', mod: 'a' }, 'ca.mod'],
    [{ pin: 's3cret', isolation: 'thread' }, 'ca.isolation'],
    [{ pin: 's3cret', rootCert: 'x' }, 'ca.rootCert'],
  ] as const) {
    const [line = '', ...others] = await refusal(folder, { plugin: './acme.mjs', ...given })
    assert.deepEqual([line.split(': ')[0], others], [key, []])
    assert.doesNotMatch(line, /s3cret/)
  }
})

test('a credential source can be a module: it runs in its own process and is refused as a plugin is', async t => {
  const folder = temporaryFolder(t)
  await writeFile(
    join(folder, 'source.mjs'),
    `export const plugin = {
      apiVersion: 1,
      name: 'two-words',
      options: { word: { type: 'string', required: true, description: '' } },
      create: (context, { word }) => ({
        description: 'the word ' + word,
        async get({ audience, tokenFile }) {
          if (audience === 'nobody') throw Object.assign(new Error('who?'), { name: 'CAError', code: 'unauthenticated' })
          if (audience === 'nothing') return {}
          return { token: [word, audience, tokenFile, context.tokenFile].join('-'), expiresAt: 7 }
        },
      }),
    }`,
  )
  const ca = { plugin: 'citadel', address: 'ca:15012', rootCert: 'system', tokenFile: '/t' }
  const { config } = await load(folder, { ...ca, credentials: { source: './source.mjs', word: 'open' } })
  const { credentials } = config.ca
  assert.ok(credentials)
  const context = { ...pluginContext({ clock: new SystemClock() }), tokenFile: '/t' }
  const source: CredentialSource & Partial<AsyncDisposable> = await credentials.plugin.create(
    context,
    credentials.options as ConfigOf<PluginOptions>,
  )
  t.after(() => source[Symbol.asyncDispose]?.())
  const { signal } = new AbortController()
  assert.equal(source.description, 'the word open')
  const token = await source.get({ audience: 'a', tokenFile: '/own', signal })
  assert.deepEqual(token, { token: 'open-a-/own-/t', expiresAt: 7 })
  await assert.rejects(source.get({ audience: 'nobody', signal }), { code: 'unauthenticated', message: 'who?' })
  await assert.rejects(source.get({ audience: 'nothing', signal }), { code: 'bad-response' })
  assert.deepEqual(await refusal(folder, { ...ca, credentials: { source: './source.mjs' } }), [
    'ca.credentials.word: is missing. Add the key "word".',
  ])
  assert.deepEqual(await refusal(folder, { ...ca, credentials: { source: './none.mjs' } }), [
    'ca.credentials.source: "./none.mjs" is not found: there is no file …/none.mjs. Correct the path.',
  ])
})
