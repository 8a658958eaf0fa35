/** The keys that say what a certificate carries: which wishes a CA honours, and which it does not. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { ConfigError } from '../schema/config-error.ts'
import { loadConfig } from './load.ts'

const ID = 'spiffe://cluster.local/web'
const MEMBER = '{ plugin: citadel, address: "a:15012", rootCert: system, tokenFile: t, dnsNames: true }'

async function load(t: TestContext, ca: string, identity: string, more = '') {
  const folder = temporaryFolder(t)
  const file = join(folder, 'livery.yaml')
  const entry = `identities: [{ id: "${ID}", ${identity} }]`
  await writeFile(file, `ca: ${ca}\n${entry}\nsockets: [{ path: /s }]\n${more}`)
  return await loadConfig({ file, environment: {}, workingDirectory: folder, terminal: false })
}

async function refusal(t: TestContext, ...args: readonly [ca: string, identity: string, more?: string]) {
  const error: unknown = await load(t, ...args).catch(reason => reason)
  return error instanceof ConfigError ? error.message : assert.fail(`taken: ${args}`)
}

test('an identity has its own names, in lower case, lifetime and key type', async t => {
  const keys = 'dnsNames: [Web.example, "*.web.example"], ttl: 10m, keyType: rsa-2048'
  const { config } = await load(t, '{ plugin: embedded }', keys)
  const wish = { keyType: 'rsa-2048', ttlSeconds: 600, dnsNames: ['web.example', '*.web.example'] }
  assert.deepEqual(config.identities[0]?.wish, wish)
  assert.equal((await load(t, '{ plugin: embedded }', 'dnsNames: []')).config.identities[0]?.wish, undefined)
})

test('names that no certificate may have are refused', async t => {
  const many = Array.from({ length: 65 }, (_, index) => `w${index}.example`)
  for (const names of ['[a_b]', '[10.0.0.1]', '["w*.b"]', '[a.b, A.b]', `[${many}]`])
    assert.match(await refusal(t, '{ plugin: embedded }', `dnsNames: ${names}`), /identities\[0\]\.dnsNames/, names)
})

test('what the CA does not honour is refused with the key, the plugin and the remedy', async t => {
  const mount = '{ plugin: file-mount, folder: /certs }'
  const cases = [
    [mount, 'dnsNames: [a.b]', /dnsNames: is not available: the plugin file-mount of ca gives no DNS names\. Remove/],
    [mount, 'ttl: 1h', /\.ttl: is not available: the plugin file-mount of ca has its own lifetimes\. Remove ttl/],
    [mount, 'keyType: rsa-2048', /\.keyType: is not available: .* brings its own keys\. Remove keyType/],
    [MEMBER.replace(', dnsNames: true', ''), 'dnsNames: [a.b]', /ca\.dnsNames: .*dnsNames: true here for livery ca/],
    [`{ plugin: failover, cas: [${MEMBER}, ${mount}] }`, 'dnsNames: [a.b]', /the plugin file-mount of ca\.cas\[1\]/],
  ] as const
  for (const [ca, identity, expected] of cases) assert.match(await refusal(t, ca, identity), expected)
  await load(t, `{ plugin: failover, cas: [${MEMBER}] }`, 'dnsNames: [a.b]')
})

test('the names of pods are templates, with one variable a label', async t => {
  const pods = (names: string) => `kubernetes: { nodeName: n, dnsNames: ${names} }\n`
  const embedded = '{ plugin: embedded }'
  await load(t, embedded, '', pods('["*.{pod}.{namespace}.svc.{trustDomain}", "x-{label:app}.{annotation:a/b}"]'))
  for (const name of ['{pod}-{namespace}.svc', '{pod}{uid}', '*{pod}.svc', 'a_b.{pod}', '{name}.svc', '{pod'])
    assert.match(await refusal(t, embedded, '', pods(`["${name}"]`)), /kubernetes\.dnsNames\[0\]/, name)
  const mount = '{ plugin: file-mount, folder: /certs }'
  assert.match(await refusal(t, mount, '', pods('["{pod}.svc"]')), /kubernetes\.dnsNames: is not available/)
})
