/** Every way to write a wrong value, with the place where it is refused. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { directory, file, load, MINIMAL, placesOf } from '../../test/config-file.ts'
import { ConfigError } from '../schema/config-error.ts'
import { loadConfig } from './load.ts'
import { configJson, printConfig } from './print.ts'

async function refused(text: string): Promise<ConfigError> {
  const error: unknown = await load(text).catch(reason => reason)
  return error instanceof ConfigError ? error : assert.fail(String(error))
}

type Case = readonly [text: string, place: string]

/** Cases by the part of the minimal file that they replace, or follow after a comma, each with the refused line and key. The empty part is the end. */
const REFUSALS: Readonly<Record<string, readonly Case[]>> = {
  '': [
    ['ttl: 24', '4 ttl'],
    ['ttl: 10ms', '4 ttl'],
    ['drain: 2h', '4 drain'],
    ['ttl:', '4 ttl'],
    ['keyTyp: rsa-2048', '4 keyTyp'],
    ['keyType: rsa-1024', '4 keyType'],
    ['rotation: { ratoi: 0.5 }', '4 rotation.ratoi'],
    ['rotation: { ratio: "0.5" }', '4 rotation.ratio'],
    ['rotation: { ratio: 0.9, jitter: 0.2 }', '4 rotation.ratio'],
    ['rotation: { ratio: 0.5, survive: 12h }', '4 rotation.survive'],
    ['rotation: { survive: 0.5 }', '4 rotation.survive'],
    ['rotation: 0.5', '4 rotation'],
    ['trust: { anchors: roots.pem }', '4 trust.anchors'],
    ['trust: { anchors: ["-----BEGIN CERTIFICATE-----"] }', '4 trust.anchors[0]'],
    ['trust: { poll: 1s }', '4 trust.poll'],
    ['trust: { federated: { other.example: {} } }', '4 trust.federated."other.example".url'],
    [
      'trust: { federated: { other.example: { url: "http://other.example/bundle" } } }',
      '4 trust.federated."other.example".url',
    ],
    [
      'trust: { federated: { other.example: { url: "https://me:secret@other.example/bundle" } } }',
      '4 trust.federated."other.example".url',
    ],
    [
      'trust: { federated: { other.example: { file: a.pem, url: "https://other.example" } } }',
      '4 trust.federated."other.example".url',
    ],
    ['trust: { federated: { Other: { file: a.pem } } }', '4 trust.federated.Other'],
    ['trust: { federated: { cluster.local: { file: a.pem } } }', '4 trust.federated."cluster.local"'],
    ['concurrency: 0', '4 concurrency'],
    ['rsaKeys: openssl', '4 rsaKeys'],
    ['removal: 5m', '4 removal'],
    ['removal: { grace: 31d }', '4 removal.grace'],
    ['idle: { after: 0s }', '4 idle.after'],
    ['idle: { action: forget }', '4 idle.action'],
    ['maxIdentities: "20000"', '4 maxIdentities'],
    ['retry: { min: 10m }', '4 retry.min'],
    ['trustDomain: Cluster.Local', '4 trustDomain'],
    ['trustDomain: example.org', '2 identities[0]'],
    ['names: { root: default }', '4 names.root'],
    ['files: { names: { "sds://a": "file-cert:/a" } }', '4 files.names."sds://a"'],
    ['files: { names: { ROOTCA: "file-root:/a/ca.pem" } }', '4 files.names.ROOTCA'],
    ['files: { allow: /etc/certs }', '4 files.allow'],
    ['output: { directory: out, reload: { command: [nginx, -s, reload] } }', '4 output.reload.command'],
    ['output: { directory: out, reload: { signal: SIGKILL, pidFile: pid } }', '4 output.reload.signal'],
    ['files: { expired: drop }', '4 files.expired'],
    ['admin: { address: 15100 }', '4 admin.address'],
    ['admin: { address: "localhost:99999" }', '4 admin.address'],
    ['health: {}', '4 health.address'],
    ['log: { level: warning }', '4 log.level'],
    ['log: { level: "info,sdss:debug" }', '4 log.level'],
  ],
  '[spiffe://cluster.local/ns/default/sa/web]': [
    ['[{ range: "spiffe://cluster.local/{0..20000}" }]', 'file maxIdentities'],
    ['[{ range: "spiffe://cluster.local/{0..1}", output: { directory: out } }]', '2 identities[0].output'],
    ['[spiffe://cluster.local/a, spiffe://cluster.local/b]\noutput: { directory: out }', '3 output'],
    ['[web]', '2 identities[0]'],
    ['[]', '2 identities'],
    ['web', '2 identities'],
    ['[spiffe://cluster.local/a, { id: spiffe://cluster.local/a }]', '2 identities[1]'],
    ['[{ range: "spiffe://cluster.local/a" }]', '2 identities[0].range'],
    ['[{ range: "spiffe://cluster.local/{0..1}{0..1}" }]', '2 identities[0].range'],
    ['[{ range: "spiffe://cluster.local/{00..10}" }]', '2 identities[0].range'],
    ['[{ range: "spiffe://cluster.local/{9..1}" }]', '2 identities[0].range'],
    ['[{ range: "spiffe://cluster.local/{0..9999999999}" }]', '2 identities[0].range'],
    [
      '[{ id: spiffe://cluster.local/a, socket: { path: s, callers: [{ pid: 7 }] } }]',
      '2 identities[0].socket.callers[0].pid',
    ],
    [
      '[{ id: spiffe://cluster.local/a, socket: { path: s, callers: [{ uid: 1, selectors: [sa:b] }] } }]',
      '2 identities[0].socket.callers[0].selectors',
    ],
    [
      '[{ id: spiffe://cluster.local/a, socket: { path: s, allow: [spiffe://cluster.local/b] } }]',
      '2 identities[0].socket.allow[0]',
    ],
    [
      '[{ id: spiffe://cluster.local/a, socket: { path: s, allow: ["file-cert:/etc/../certs/*"] } }]',
      '2 identities[0].socket.allow[0]',
    ],
    ['[{ id: spiffe://cluster.local/a, socket: { mode: "0600" } }]', '2 identities[0].socket.path'],
    ['[{ range: "spiffe://cluster.local/{1..3}", socket: run/s }]', '2 identities[0].socket'],
    ['[{ range: "spiffe://cluster.local/{1..2}/x", socket: "run/{name}" }]', '2 identities[0].socket'],
  ],
  'plugin: embedded': [
    ['plugin: citadel, rootCert: root.pem', '1 ca.address'],
    ['plugin: citadel, address: "ca:15012"', '1 ca.rootCert'],
    ['plugin: citadel, address: ca, rootCert: system', '1 ca.address'],
    ['plugin: citadel, address: "ca:15012", rootCert: system, tokenfile: x', '1 ca.tokenfile'],
    ['plugin: citadel, address: "ca:15012", rootCert: system, impersonate: "true"', '1 ca.impersonate'],
    ...['[X25519MLKEM76]', '["X25519:P-256"]', '[1]'].map(
      (groups): Case => [
        `plugin: citadel, address: "ca:15012", rootCert: system, tls: { groups: ${groups} }`,
        '1 ca.tls.groups[0]',
      ],
    ),
    ['plugin: citadel, address: "ca:15012", rootCert: system, tls: { groups: [] }', '1 ca.tls.groups'],
    [
      'plugin: citadel, address: "ca:15012", rootCert: system, clientCertificate: { certFile: a }',
      '1 ca.clientCertificate.keyFile',
    ],
    [
      'plugin: citadel, address: "ca:15012", rootCert: system, credentials: { source: stss }',
      '1 ca.credentials.source',
    ],
    ['plugin: citadel, address: "ca:15012", rootCert: system, credentials: {}', '1 ca.credentials.source'],
    [
      'plugin: citadel, address: "ca:15012", rootCert: system, credentials: { source: sts }',
      '1 ca.credentials.audience',
    ],
    [
      'plugin: citadel, address: "ca:15012", rootCert: system, credentials: { source: static, token: "s3 cret" }',
      '1 ca.credentials.token',
    ],
    ['plugin: citadel, address: "ca:15012", rootCert: system, credentials: s3cret', '1 ca.credentials'],
    [', tokenFile: x', '1 ca.tokenFile'],
    [', rootCert: system', '1 ca.rootCert'],
    ['plugin: kubernetes-csr, signerName: example.com/workloads, rootCert: system', '1 ca.rootCert'],
    ['plugin: google-ca, service: cass', '1 ca.service'],
    ['plugin: embeded', '1 ca.plugin'],
  ],
  '{ plugin: embedded }': [
    ['{}', '1 ca.plugin'],
    ['embedded', '1 ca'],
  ],
  'path: run/sds.sock': [
    [', mode: 0660', '3 sockets[0].mode'],
    [', mode: "0999"', '3 sockets[0].mode'],
    [', group: no-such-group', '3 sockets[0].group'],
    [', allow: ["spiffe://cluster.local/**/x"]', '3 sockets[0].allow[0]'],
    [', allow: ["spiffe://cluster.local/sa-**"]', '3 sockets[0].allow[0]'],
    [', callers: [{ uid: root }]', '3 sockets[0].callers[0].uid'],
    [', callers: [{ allow: [] }]', '3 sockets[0].callers[0]'],
    ...[
      'ns:',
      'ns:Default',
      'pod:x',
      'sa:a/b',
      'label:app',
      'label:a b=c',
      'label:=x',
      'ns:*',
      'ns:a ',
      'label:a=b=c',
    ].map(
      (selector): Case => [
        `, identify: kubernetes, callers: [{ selectors: ["${selector}"] }]`,
        '3 sockets[0].callers[0].selectors[0]',
      ],
    ),
    [', identify: kubernetes, callers: [{ selectors: [] }]', '3 sockets[0].callers[0]'],
    [', callers: [{ selectors: [ns:a] }]', '3 sockets[0].callers[0].selectors'],
    [', identify: kubernetes', '3 sockets[0].identify'],
    [', identify: docker', '3 sockets[0].identify'],
    [', onDemand: yes', '3 sockets[0].onDemand'],
    [', limits: { streams: 0 }', '3 sockets[0].limits.streams'],
  ],
  'path: run/sds.sock }': [['path: run/a }, { path: ./run/a }', '3 sockets[1].path']],
  '[{ path: run/sds.sock }]': [['[]', '3 sockets']],
}

for (const [part, cases] of Object.entries(REFUSALS))
  for (const [text, place] of cases)
    test(`refused: ${part === '' ? text : `${text} for ${part}`}`, async () => {
      const written = text.startsWith(',') ? part + text : text
      const error = await refused(part === '' ? `${MINIMAL}${text}\n` : MINIMAL.replace(part, written))
      assert.deepEqual(placesOf(error), [place])
      assert.doesNotMatch(error.message, /s3 ?cret|me:secret/)
    })

const USERINFO =
  'has an "@". Leave a user name, password or token out of an address, and write an "@" of its path as %40.'

test('a password in an address is refused, wherever it is written, and in no text', async () => {
  const texts = await Promise.all(
    [
      'plugin: citadel, rootCert: system, address: "https://user:hunter2@ca.example:15012"',
      'plugin: citadel, rootCert: system, address: "https://hunter2@ca.example:15012"',
      'plugin: citadel, rootCert: system, address: "user:hunter2@ca.example:15012"',
      'plugin: google-ca, service: mesh-ca, endpoint: "user:hunter2@meshca.example:443"',
      'plugin: vault, mount: pki, role: web, address: "https://user:hunter/2@vault.example"',
      'plugin: step-ca, address: "https://user:hunter2@ca.example", fingerprint: "00"',
      'plugin: spiffe, address: "tcp://user:hunter2@127.0.0.1:8081"',
      'plugin: citadel, rootCert: system, address: "ca:1", credentials: { source: sts, endpoint: "https://user:hunter2@sts.example" }',
      'plugin: citadel, rootCert: system, address: "ca:1", credentials: { source: gce-metadata, address: "http://user:hunter2@metadata" }',
      'plugin: failover, cas: [{ plugin: citadel, rootCert: system, address: "https://user:hunter2@ca.example:15012" }]',
    ].map(async (ca, index) => {
      const path = join(directory, `userinfo-${index}.yaml`)
      writeFileSync(path, MINIMAL.replace('{ plugin: embedded }', `{ ${ca} }`))
      const refused = loadConfig({ file: path, environment: {}, workingDirectory: '/elsewhere', terminal: false })
      const error: unknown = await refused.catch(reason => reason)
      assert.ok(error instanceof ConfigError, ca)
      assert.match(error.message, /address|endpoint/, ca)
      return inspect(error, { depth: 9 })
    }),
  )
  assert.ok(texts.filter(text => text.includes(USERINFO)).length >= 7, texts.join('\n'))
  for (const text of texts) assert.doesNotMatch(text, /hunter/)
})

test('a password in an address of a variable is refused and in no text, and in none that shows the configuration', async () => {
  const sources = { file, workingDirectory: '/elsewhere', terminal: false }
  writeFileSync(file, MINIMAL.replace('ca: { plugin: embedded }\n', ''))
  const environment = { CA_ADDR: 'https://user:hunter2@ca.example:15012', CA_PROVIDER: 'https://user:hunter2@ca' }
  const error: unknown = await loadConfig({ ...sources, environment }).catch(reason => reason)
  assert.ok(error instanceof ConfigError)
  assert.doesNotMatch(error.message, /hunter/)
  // Whatever a plugin does with its text.
  const ca =
    '{ plugin: step-ca, address: "https://ca.example", rootCert: system, provisioner: "https://user:hunter2@idp", jwkFile: key.json }'
  writeFileSync(file, MINIMAL.replace('{ plugin: embedded }', ca))
  const loaded = await loadConfig({ ...sources, environment: {} })
  const shown = printConfig(loaded) + JSON.stringify(configJson(loaded))
  assert.match(shown, /https:\/\/\[secret\]@idp/)
  assert.doesNotMatch(shown, /hunter/)
})

test('a socket path that the kernel would cut is refused', async () => {
  const error = await refused(MINIMAL.replace('run/sds.sock', `/${'x'.repeat(120)}`))
  assert.deepEqual(placesOf(error), ['3 sockets[0].path'])
})

test('a refusal has its place, the value, the reason and the remedy', async () => {
  const { message } = await refused(`${MINIMAL}ttl: 24\nkeyTyp: rsa-2048\nlog: { level: "sdss:debug" }\n`)
  assert.deepEqual(message.replaceAll(`${directory}/`, '').split('\n'), [
    'livery.yaml:4: ttl: 24 is not a duration. Write a number with a unit: 500ms, 5s, 30m, 24h or 90d.',
    'livery.yaml:6: log.level: "sdss:debug" has the scope "sdss", none of admin, agent, ca, config, files, kubernetes, output, plugin, scheduler, sds, store, takeover, trust. Did you mean sds?',
    'livery.yaml:5: keyTyp: unknown key. Did you mean "keyType"? Known here: trustDomain, keyType, ttl, rotation, trust, retry, concurrency, rsaKeys, ca, identities, removal, idle, maxIdentities, kubernetes, kubernetesSecrets, store, sharedFolders, sockets, files, output, names, sds, admin, health, drain, log, profile.',
  ])
})

test('an unknown key names the one that was probably meant, and no unlike one', async () => {
  const ca = 'plugin: citadel, address: "ca:15012", rootCert: system, dns: true'
  const { message } = await refused(`logLevel: debug\nca: { ${ca} }\nidentities: [spiffe://cluster.local/web]\n`)
  assert.match(message, /logLevel: unknown key\. Write log: \{ level: info \}\./)
  assert.match(message, /ca\.dns: unknown key\. Did you mean "dnsNames"\?/)
})

for (const [keys, place] of [
  ['', '2 kubernetes.nodeName'],
  ['nodeName: Node_1', '2 kubernetes.nodeName'],
  ['nodeName: n, selector: "a in b"', '2 kubernetes.selector'],
  ['nodeName: n, identity: "spiffe://x/{pod}"', '2 kubernetes.identity'],
  ['nodeName: n, identity: "spiffe://{trustDomain}/{who}"', '2 kubernetes.identity'],
  ['nodeName: n, csi: {}', '2 kubernetes.csi'],
  ['nodeName: n', 'file sockets'],
  ['nodeName: n, namespaces: { only: [A_b] }', '2 kubernetes.namespaces.only[0]'],
] as const)
  test(`a section kubernetes is refused: { ${keys} }`, async () => {
    const error = await refused(`ca: { plugin: embedded }\nkubernetes: { ${keys} }\n`)
    assert.equal(placesOf(error).at(-1), place)
  })

test('all errors are reported together, each with its own line', async () => {
  const error = await refused(`${MINIMAL}ttl: 1\nretry: { min: x }\nlog: { levle: info }\n`)
  assert.deepEqual(placesOf(error), ['4 ttl', '5 retry.min', '6 log.levle'])
})

test('every unknown key of a mapping is reported, those beside a wrong value too', async () => {
  const wrong = ['tt', 'drian', 'lgo', 'xyz', 'rotaton', 'concurency']
  const { problems } = await refused(`${MINIMAL}${wrong.map(key => `${key}: 1\n`).join('')}ttl: 1\n`)
  assert.deepEqual(
    problems.map(({ path }) => path),
    ['ttl', ...wrong],
  )
})

test('a file without ca is named', async () => {
  assert.deepEqual(placesOf(await refused(MINIMAL.replace('ca: { plugin: embedded }\n', ''))), ['file ca'])
})

test('a value of a header is never shown', async () => {
  const ca = 'plugin: citadel, address: "a:1", rootCert: r, headers: { X-Key: [s3cret] }'
  const error = await refused(MINIMAL.replace('plugin: embedded', ca))
  assert.deepEqual(placesOf(error), ['1 ca.headers.X-Key'])
  assert.doesNotMatch(error.message, /s3cret/)
})

test('whatever the values, a configuration is accepted or refused with a ConfigError that names a path', async () => {
  const value = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.array(fc.string()),
    fc.dictionary(fc.string(), fc.string()),
  )
  const key = fc.constantFrom(
    'trustDomain',
    'keyType',
    'ttl',
    'rotation',
    'retry',
    'concurrency',
    'rsaKeys',
    'removal',
    'idle',
    'maxIdentities',
    'sharedFolders',
    'ca',
    'identities',
    'sockets',
    'names',
    'admin',
    'health',
    'drain',
    'log',
  )
  await fc.assert(
    fc.asyncProperty(fc.dictionary(key, value), async settings => {
      try {
        await load(JSON.stringify(settings))
      } catch (error) {
        assert.ok(error instanceof ConfigError, `${JSON.stringify(settings)}: ${error}`)
      }
    }),
    { numRuns: process.env['LIVERY_SLOW'] ? 5_000 : 300 },
  )
})
