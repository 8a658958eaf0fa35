/** Plugins from modules, as the configuration names them: what is found, what is refused and how. */
import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pluginContext } from '@livery/ca-plugins/testing'
import { type ConfigOf, type CredentialSource, type PluginOptions, SystemClock } from '@livery/core'
import { AGENT_OPTION_NAMES } from '@livery/core/plugin'
import { makeDirectory } from '../../test/livery-process.ts'
import { type PluginModuleOptions, writePluginModule } from '../../test/plugin-module.ts'
import { type LoadedConfig, loadConfig } from '../config/load.ts'
import { configJson, printConfig } from '../config/print.ts'
import { NEEDED_KEYS } from '../schema/common-ca-keys.ts'
import { ConfigError } from '../schema/config-error.ts'
import { Location } from '../schema/config-tree.ts'
import { faultText } from '../schema/fault.ts'
import { USER_KEY } from './user-key.ts'

async function makeFolder(t: TestContext): Promise<string> {
  const directory = await makeDirectory()
  t.after(() => directory[Symbol.asyncDispose]())
  return directory.path
}

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
  const folder = await makeFolder(t)
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

test('its options are read as those of a built-in plugin are, and its secrets shown nowhere', async t => {
  const folder = await makeFolder(t)
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

const MODULE_REFUSALS: readonly (readonly [
  what: string,
  ca: object,
  module: PluginModuleOptions,
  says: readonly string[],
])[] = [
  [
    'no such file',
    { plugin: './none.mjs' },
    {},
    ['ca.plugin: "./none.mjs" is not found: there is no file …/none.mjs. Correct the path.'],
  ],
  [
    'no such package',
    { plugin: '@acme/none' },
    {},
    ['ca.plugin: "@acme/none" is not found from …. Install it there, or name a file such as ./my-ca.mjs.'],
  ],
  [
    'nearly a built-in',
    { plugin: 'citadle' },
    {},
    [
      'ca.plugin: "citadle" is none of the built-in citadel, embedded, failover, file-mount, google-ca, kubernetes-csr, spiffe, step-ca, vault, and is not found from …. Install it there, or name a file such as ./my-ca.mjs. Did you mean the built-in citadel?',
    ],
  ],
  [
    'is not a file',
    { plugin: 'node:fs' },
    {},
    ['ca.plugin: "node:fs" is not a file. Name a package, or a path such as ./my-ca.mjs.'],
  ],
  [
    'throws while it is loaded',
    {},
    { onLoad: `throw new Error('no luck\\nat all')` },
    ['failed while it was loaded: no luck. Fix the module, or install a version that works.'],
  ],
  [
    'throws a string while it is loaded',
    {},
    { onLoad: `throw 'no luck'` },
    ['failed while it was loaded: it threw "no luck". Fix the module, or install a version that works.'],
  ],
  [
    'ends the process while it is loaded',
    {},
    { onLoad: `process.exit(4)` },
    ['cannot be loaded: it ended its process (exit code 4). Fix the module, or install a version that works.'],
  ],
  [
    'crashes while it is loaded',
    {},
    { onLoad: `setImmediate(() => { throw new Error('late') }); await new Promise(() => {})` },
    ['cannot be loaded: it crashed: late. Fix the module, or install a version that works.'],
  ],
  [
    'has another apiVersion',
    {},
    { fields: 'apiVersion: 2,' },
    [
      'has a plugin that cannot be used: apiVersion is 2, and this version of Livery loads 1. Install a version of the plugin that fits.',
    ],
  ],
  [
    'has wrong fields',
    {},
    {
      fields: `name: 'A B', capabilities: { roots: 'all', ttl: 'clamped', san: 'csr', keyTypes: ['dsa'] }, options: [], create: 1, needs: ['tsl'],`,
    },
    [
      'has a plugin that cannot be used: name is "A B", not a name of a-z, 0-9 and -. See "Writing a CA plugin".',
      'has a plugin that cannot be used: options is [], not a mapping. See "Writing a CA plugin".',
      'has a plugin that cannot be used: create is 1, not a function. See "Writing a CA plugin".',
      'has a plugin that cannot be used: needs.0 is "tsl", not one of tls, credentials. See "Writing a CA plugin".',
      'has a plugin that cannot be used: capabilities.roots is "all", not one of none, poll, push. See "Writing a CA plugin".',
      'has a plugin that cannot be used: capabilities.keyTypes.0 is "dsa", not one of ecdsa-p256, ecdsa-p384, rsa-2048, rsa-3072, rsa-4096. See "Writing a CA plugin".',
    ],
  ],
  [
    'has no capabilities',
    {},
    { fields: 'capabilities: undefined,' },
    ['has a plugin that cannot be used: capabilities is missing. See "Writing a CA plugin".'],
  ],
  [
    'has options that cannot be',
    {},
    {
      fields: `options: { tokenFile: { type: 'path', description: '' }, wait: { type: 'duration', default: 5, description: '' } },`,
    },
    [
      "has a plugin that cannot be used: options.tokenFile is a key of Livery's own. Rename it.",
      'has a plugin that cannot be used: options.wait.default is 5, not a duration in quotes, such as "5s". See "Writing a CA plugin".',
    ],
  ],
  [
    'has a default that its option refuses',
    {},
    { fields: `options: { wait: { type: 'duration', max: '10s', default: '1m', description: '' } },` },
    ['has a plugin that cannot be used: options.wait.default is longer than 10s. Write 10s or less.'],
  ],
  [
    'has an option of no type',
    {},
    { fields: `options: { a: { type: 'text', description: '' } },` },
    [
      'has a plugin that cannot be used: options.a.type is "text", not one of string, path, duration, number, boolean, list, map, object, objects. See "Writing a CA plugin".',
    ],
  ],
]

for (const [what, ca, module, says] of MODULE_REFUSALS)
  test(`refused: a module that ${what}`, async t => {
    const folder = await makeFolder(t)
    await writePluginModule(folder, module)
    const lines = await refusal(folder, { plugin: './acme.mjs', ...ca })
    const prefix = 'plugin' in ca ? '' : 'ca.plugin: "./acme.mjs" '
    assert.deepEqual(
      lines,
      says.map(each => prefix + each),
    )
  })

test('the names that no option can have are the keys that the agent takes', () => {
  const own = ['plugin', ...Object.keys(USER_KEY), ...Object.values(NEEDED_KEYS).flat()]
  assert.deepEqual([...AGENT_OPTION_NAMES.ca].sort(), own.sort())
  assert.deepEqual([...AGENT_OPTION_NAMES.credentials].sort(), ['source', ...Object.keys(USER_KEY)].sort())
})

test('refused: a module without the export, or with another thing by its name', async t => {
  const folder = await makeFolder(t)
  await writeFile(join(folder, 'other.mjs'), 'export const a = 1, b = 2')
  await writeFile(join(folder, 'text.mjs'), 'export const plugin = "text"')
  assert.deepEqual(await refusal(folder, { plugin: './other.mjs' }), [
    'ca.plugin: "./other.mjs" exports no plugin, but a, b. Export it by the name plugin, or as default.',
  ])
  assert.deepEqual(await refusal(folder, { plugin: './text.mjs' }), [
    'ca.plugin: "./text.mjs" exports a string as its plugin. Make it by defineCAPlugin.',
  ])
})

const VALUE_REFUSALS: readonly (readonly [given: object, says: string])[] = [
  [{}, 'ca.pin: is missing. Add the key "pin".'],
  [{ pin: 's3cret', mode: 'odd' }, 'ca.mode: "odd" is odd. Write a.'],
  [{ pin: 's3cret', fails: 'x' }, 'ca.fails: "x" cannot be checked, since the plugin failed: oops. Fix the plugin.'],
  [{ pin: 's3cret', each: [{ at: '1' }, { at: 'x' }] }, 'ca.each[1].at: "x" is not a number. Correct it.'],
  [
    { pin: 's3cret', wait: 'long' },
    'ca.wait: "long" is not a duration. Write a number with a unit: 500ms, 5s, 30m, 24h or 90d.',
  ],
  [{ pin: ['s3cret'] }, 'ca.pin: is a list, not a string. Quote it.'],
  [
    { pin: 's3cret', mod: 'a' },
    'ca.mod: unknown key. Did you mean "mode"? Known here: plugin, user, mode, fails, pin, where, each, wait.',
  ],
  ...['thread', 'process'].map(
    isolation =>
      [
        { pin: 's3cret', isolation },
        'ca.isolation: unknown key. Remove it: a plugin from a module always runs in a process. With "user", root gives it another user.',
      ] as const,
  ),
  [
    { pin: 's3cret', rootCert: 'x' },
    'ca.rootCert: unknown key. The plugin acme makes no TLS connection that uses it. Remove it.',
  ],
]
test('refused: each wrong value for the options of a module', async t => {
  const folder = await makeFolder(t)
  await writePluginModule(folder, { fields: OPTIONS })
  for (const [given, says] of VALUE_REFUSALS)
    assert.deepEqual(await refusal(folder, { plugin: './acme.mjs', ...given }), [says])
})

test('a credential source can be a module: it runs in its own process and is refused as a plugin is', async t => {
  const folder = await makeFolder(t)
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
