/** A list of CAs in the section `ca`, each with its own plugin and keys. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { placesOf } from '../../test/config-file.ts'
import { writePluginModule } from '../../test/plugin-module.ts'
import { describeCA } from '../runtime/create-ca-client.ts'
import { ConfigError } from '../schema/config-error.ts'
import { Location } from '../schema/config-tree.ts'
import type { Environment } from './environment.ts'
import { loadConfig } from './load.ts'
import { configJson, printConfig } from './print.ts'

interface Loading {
  readonly yaml: string
  readonly environment?: Environment
  /** Fields of the plugin in ./acme.mjs. */
  readonly fields?: string
}

async function load(t: TestContext, { yaml, environment = {}, fields }: Loading) {
  const folder = temporaryFolder(t)
  const file = join(folder, 'livery.yaml')
  await writePluginModule(folder, fields === undefined ? {} : { fields })
  await writeFile(file, `${yaml}\nidentities: ["spiffe://cluster.local/a"]\nsockets: [{ path: /s }]\n`)
  const loaded = await loadConfig({ file, environment, workingDirectory: folder, terminal: false })
  return { loaded, folder }
}

async function refused(t: TestContext, loading: Loading): Promise<ConfigError> {
  const error: unknown = await load(t, loading).catch(reason => reason)
  return error instanceof ConfigError ? error : assert.fail(String(error))
}

const TWO = `
ca:
  plugin: failover
  cas:
    - { plugin: citadel, address: "a:15012", rootCert: a.pem, tokenFile: tokens/a, headers: { X-Key: s3cret } }
    - plugin: ./acme.mjs
      pin: s3cret
      rootCert: system
      where: here
      credentials: { source: static, token: s3cret }
`
const ACME = `needs: ['tls', 'credentials'], options: {
  pin: { type: 'string', secret: true, required: true, description: '' },
  where: { type: 'path', description: '' },
  headers: { type: 'string', default: 'none', description: '' },
},`

test('each CA accepts the keys of its plugin, built-in or module, with its paths and defaults', async t => {
  const { loaded, folder } = await load(t, { yaml: TWO, fields: ACME })
  const { plugin, options, members = [] } = loaded.config.ca
  assert.equal(plugin.name, 'failover')
  assert.deepEqual(options, {})
  const [citadel, acme] = members
  assert.equal(citadel?.plugin.name, 'citadel')
  assert.equal(citadel.rootCert, join(folder, 'a.pem'))
  assert.equal(citadel.tokenFile, join(folder, 'tokens/a'))
  assert.equal(acme?.plugin.name, 'acme')
  assert.equal(acme.rootCert, 'system')
  assert.deepEqual(acme.options, { pin: 's3cret', where: join(folder, 'here'), headers: 'none' })
  assert.deepEqual(acme.credentials?.options, { token: 's3cret' })
  assert.equal(new Location(loaded.root, ['ca', 'cas', 1, 'headers']).origin.kind, 'default')
  assert.deepEqual(new Location(loaded.root, ['ca', 'cas', 1, 'pin']).origin, {
    kind: 'file',
    file: join(folder, 'livery.yaml'),
    line: 7,
  })
  assert.equal(describeCA(loaded.config.ca), 'failover: citadel at a:15012, acme')
})

test('the capabilities of the list are those that all of its CAs have', async t => {
  const { loaded } = await load(t, { yaml: TWO, fields: ACME })
  assert.deepEqual(loaded.config.ca.plugin.capabilities, {
    roots: 'push',
    ttl: 'honoured',
    san: 'caller',
    keyTypes: ['ecdsa-p256'],
  })
})

test('secrets of a CA in the list are shown nowhere, and other values are shown', async t => {
  const { loaded } = await load(t, { yaml: TWO, fields: ACME })
  const shown = printConfig(loaded) + JSON.stringify(configJson(loaded))
  assert.doesNotMatch(shown, /s3cret/)
  assert.match(shown, /address: a:15012/)
  // Only the citadel has secret headers.
  assert.match(shown, /headers: none/)
})

test('variables of a CA do not apply to the list, and a warning says so', async t => {
  const { loaded } = await load(t, { yaml: TWO, fields: ACME, environment: { CA_ADDR: 'other:15012' } })
  assert.equal(loaded.config.ca.members?.[0]?.options['address'], 'a:15012')
  assert.match(loaded.warnings.join(), /CA_ADDR is set, but ca\.plugin is failover .*no effect/)
})

const REFUSALS: readonly (readonly [what: string, ca: string, says: readonly string[]])[] = [
  ['no list', 'plugin: failover', ['1 ca.cas']],
  ['an empty list', 'plugin: failover, cas: []', ['1 ca.cas']],
  ['one CA without a list', 'plugin: failover, cas: { plugin: embedded }', ['1 ca.cas']],
  ['an entry that is not a mapping', 'plugin: failover, cas: [citadel]', ['1 ca.cas[0]']],
  [
    'a CA without a plugin, and a module that is not there',
    'plugin: failover, cas: [{ address: "a:1" }, { plugin: ./none.mjs }]',
    ['1 ca.cas[0].plugin', '1 ca.cas[1].plugin'],
  ],
  [
    'a list within a list',
    'plugin: failover, cas: [{ plugin: embedded }, { plugin: failover, cas: [{ plugin: embedded }] }]',
    ['1 ca.cas[1].plugin'],
  ],
  [
    'values of the CAs',
    'plugin: failover, roots: 1, cas: [{ plugin: embedded, intermediate: 1 }, { plugin: citadel, address: nowhere, rootCert: r }]',
    ['1 ca.cas[0].intermediate', '1 ca.cas[1].address', '1 ca.roots'],
  ],
  ['a key of the wrong CA', 'plugin: failover, cas: [{ plugin: embedded, rootCert: r }]', ['1 ca.cas[0].rootCert']],
  [
    'a citadel without a root',
    'plugin: failover, cas: [{ plugin: citadel, address: "a:15012" }]',
    ['1 ca.cas[0].rootCert'],
  ],
  [
    'errors that only the plugins of the list can find, each with its line',
    `plugin: failover,\n  cas: [{ plugin: citadel,\n  address: "a:15012", rootCert: r, headers: { te: x } },\n  { plugin: step-ca, address: "https://ca",\n  passwordFile: /p }]\n`,
    ['3 ca.cas[0].headers', '5 ca.cas[1].passwordFile'],
  ],
  ['a list at one CA', 'plugin: embedded, cas: [{ plugin: embedded }]', ['1 ca.cas']],
  ['a key of a CA at the list', 'plugin: failover, rootCert: r, cas: [{ plugin: embedded }]', ['1 ca.rootCert']],
]
for (const [what, ca, places] of REFUSALS)
  test(`refused: ${what}`, async t => {
    assert.deepEqual(placesOf(await refused(t, { yaml: `ca: { ${ca} }` })), places)
  })

test('a module cannot have a list of CAs', async t => {
  const error = await refused(t, { yaml: 'ca: { plugin: ./acme.mjs }', fields: `needs: ['members'],` })
  assert.match(error.message, /needs\.0 is "members"/)
})
