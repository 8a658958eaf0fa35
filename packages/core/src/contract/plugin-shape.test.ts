/** Whether a value is a plugin, by its fields alone. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineCAPlugin } from './ca-plugin.ts'
import { defineCredentialPlugin } from './credential-plugin.ts'
import { pluginFaults } from './plugin-shape.ts'

const ca = defineCAPlugin({
  apiVersion: 1,
  name: 'example',
  capabilities: { roots: 'poll', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'], bringsKey: false },
  needs: ['tls', 'credentials'],
  options: {
    url: { type: 'string', required: true, description: 'the CA' },
    mode: { type: 'string', choices: ['a', 'b'], default: 'a', description: 'which' },
    wait: { type: 'duration', default: '5s', description: 'how long' },
    names: { type: 'list', default: ['a'], description: 'which' },
    backup: { type: 'object', options: { url: { type: 'string', description: 'the other CA' } }, description: 'a CA' },
  },
  create: () => assert.fail(),
})

test('a plugin of each kind has no fault', () => {
  const credentials = { apiVersion: 1, name: 'example', options: {}, create: () => assert.fail() } as const
  assert.deepEqual(pluginFaults('ca', ca), [])
  assert.deepEqual(pluginFaults('credentials', defineCredentialPlugin(credentials)), [])
})

const FAULTS: readonly (readonly [fields: object, fault: RegExp])[] = [
  [{ apiVersion: 2 }, /^apiVersion is 2, and this version of Livery loads 1\./],
  [{ name: 'Example CA' }, /^name is "Example CA", not a name of a-z/],
  [{ create: undefined }, /^create is missing\./],
  [{ check: true }, /^check is true, not a function\./],
  [{ needs: ['members'] }, /^needs\.0 is "members", not one of tls, credentials\./],
  [
    { capabilities: { ...ca.capabilities, roots: 'all' } },
    /^capabilities\.roots is "all", not one of none, poll, push\./,
  ],
  [
    { capabilities: { ...ca.capabilities, keyTypes: 'rsa-2048' } },
    /^capabilities\.keyTypes is "rsa-2048", not a list\./,
  ],
  [{ capabilities: undefined }, /^capabilities is missing\./],
  [{ options: [] }, /^options is \[\], not a mapping\./],
  [{ options: { rootCert: ca.options.url } }, /^options\.rootCert is a key that Livery reserves\./],
  [{ options: { url: { type: 'url', description: '' } } }, /^options\.url\.type is "url", not one of string, path/],
  [{ options: { url: { type: 'string' } } }, /^options\.url\.description is missing\./],
  [
    { options: { n: { type: 'number', default: '5', description: '' } } },
    /^options\.n\.default is "5", not a number\./,
  ],
  [
    { options: { names: { type: 'list', default: [1], description: '' } } },
    /^options\.names\.default\.0 is 1, not a text\./,
  ],
  [{ options: { backup: { type: 'object', description: '' } } }, /^options\.backup\.options is missing\./],
  [
    {
      options: { backup: { type: 'objects', description: '', options: { plugin: { type: 'txt', description: '' } } } },
    },
    /^options\.backup\.options\.plugin\.type is "txt"/,
  ],
]

for (const [fields, says] of FAULTS)
  test(`one fault is found, by its path: ${says.source}`, () => {
    const faults = pluginFaults('ca', { ...ca, ...fields })
    assert.equal(faults.length, 1, faults.join('\n'))
    assert.match(faults[0] ?? '', says)
  })

test('a value that is not a mapping is not a plugin', () => {
  for (const value of ['text', undefined, null, []]) assert.equal(pluginFaults('ca', value).length, 1)
})
