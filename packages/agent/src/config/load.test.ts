import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DEFAULT_LIMITS } from '@livery/sds-server/defaults'
import { directory, file, load, MINIMAL } from '../../test/config-file.ts'
import { everyScope } from '../schema/log-level.ts'
import { type Config, loadConfig } from './load.ts'

const { perCaller: everyLimit, ...limits } = DEFAULT_LIMITS
const { identities: _, ...perCaller } = everyLimit

/** The section as it was written: the plugin's keys and the agent's. */
function caOf({ ca: { plugin, options, credentials, ...common } }: Config): object {
  const source = credentials && { plugin: credentials.plugin.name, options: credentials.options }
  return { plugin: plugin.name, ...options, ...common, ...(source && { credentials: source }) }
}

test('every key of the file arrives, in milliseconds, numbers and absolute paths', async () => {
  const { config } = await load(`
trustDomain: example.org
keyType: rsa-3072
ttl: 90d
rotation: { ratio: 0.6, jitter: 0.05, settle: 1s }
trust:
  poll: 1m
  anchors: [roots.pem, /etc/more.pem]
  crl: crl.pem
  federated:
    other.example: { file: other.pem }
    third.example: { url: https://third.example/bundle, rootCert: ca.pem }
retry: { min: 1s, max: 2m }
concurrency: 8
rsaKeys: library
ca:
  plugin: citadel
  address: ca.example.org:15012
  rootCert: ca/root.pem
  tokenFile: /var/token
  serverName: istiod.istio-system.svc
  clusterId: Kubernetes
  certSigner: example.org/signer
  headers: { X-Tenant: blue }
  clientCertificate: { certFile: client.pem, keyFile: client.key }
  impersonate: true
identities:
  - spiffe://example.org/a
  - { id: spiffe://example.org/b, socket: run/b.sock, tokenFile: b.token, output: { directory: out, owner: 12, reload: { signal: SIGHUP, pidFile: b.pid } } }
  - { range: "spiffe://example.org/sa-{8..10}/x", tokenFile: range.token }
  - { range: "spiffe://example.org/ns/{1..2}", socket: { path: "run/{name}/s", mode: "0600", owner: 12, group: root, callers: [{ gid: 7 }], limits: { streams: 9 } } }
removal: { grace: 0s }
idle: { after: 10m, action: drop }
maxIdentities: 7
sharedFolders: [run/pod]
sockets:
  - path: run/sds.sock
    mode: "0600"
    owner: 12
    group: root
    allow: ["spiffe://example.org/*/x", "spiffe://example.org/**"]
    callers: [{ uid: 1001, allow: [spiffe://example.org/a] }, { uid: 0, gid: 5 }]
    onDemand: true
    workloadApi: true
    limits: { connections: 1, streams: 2, names: 3, messageBytes: 65536, perCaller: { connections: 4, bytes: 33554432 } }
files: { allow: [certs], wellKnown: [], names: { "sds://gateway": "file-root:/a/ca.crt" }, expired: serve }
names: { default: own, root: roots }
sds: { takeover: true }
admin: { address: "[::1]:15100" }
health: { address: "0.0.0.0:15121" }
drain: 0s
log: { level: debug, format: pretty }
`)
  const at = (path: string): string => join(directory, path)
  assert.deepEqual(JSON.parse(JSON.stringify({ ...config, ca: caOf(config) })), {
    trustDomain: 'example.org',
    keyType: 'rsa-3072',
    ttl: 7_776_000_000,
    rotation: { ratio: 0.6, jitter: 0.05, settle: 1_000, ackWait: 60_000 },
    trust: {
      poll: 60_000,
      anchors: [at('roots.pem'), '/etc/more.pem'],
      crl: at('crl.pem'),
      federated: {
        'other.example': { file: at('other.pem') },
        'third.example': { url: 'https://third.example/bundle', rootCert: at('ca.pem') },
      },
    },
    retry: { min: 1_000, max: 120_000 },
    concurrency: 8,
    rsaKeys: 'library',
    ca: {
      plugin: 'citadel',
      credentials: { plugin: 'token-file', options: {} },
      address: 'ca.example.org:15012',
      rootCert: at('ca/root.pem'),
      tokenFile: '/var/token',
      serverName: 'istiod.istio-system.svc',
      clusterId: 'Kubernetes',
      certSigner: 'example.org/signer',
      headers: { 'X-Tenant': 'blue' },
      clientCertificate: { certFile: at('client.pem'), keyFile: at('client.key') },
      impersonate: true,
    },
    identities: [
      { id: 'spiffe://example.org/a' },
      {
        id: 'spiffe://example.org/b',
        socket: { path: at('run/b.sock') },
        tokenFile: at('b.token'),
        output: {
          directory: at('out'),
          mode: 0o600,
          owner: 12,
          bundle: false,
          reload: { signal: 'SIGHUP', pidFile: at('b.pid') },
        },
      },
      { id: 'spiffe://example.org/sa-8/x', tokenFile: at('range.token') },
      { id: 'spiffe://example.org/sa-9/x', tokenFile: at('range.token') },
      { id: 'spiffe://example.org/sa-10/x', tokenFile: at('range.token') },
      ...['1', '2'].map(name => ({
        id: `spiffe://example.org/ns/${name}`,
        socket: {
          path: at(`run/${name}/s`),
          mode: 0o600,
          owner: 12,
          group: 0,
          workloadApi: true,
          limits: { ...limits, streams: 9, perCaller },
          callers: [{ gid: 7 }],
        },
      })),
    ],
    removal: { grace: 0 },
    idle: { after: 600_000, action: 'drop' },
    maxIdentities: 7,
    sharedFolders: [at('run/pod')],
    sockets: [
      {
        path: at('run/sds.sock'),
        mode: 0o600,
        owner: 12,
        group: 0,
        allow: ['spiffe://example.org/*/x', 'spiffe://example.org/**'],
        callers: [
          { uid: 1001, allow: ['spiffe://example.org/a'] },
          { uid: 0, gid: 5 },
        ],
        onDemand: true,
        workloadApi: true,
        limits: {
          connections: 1,
          streams: 2,
          names: 3,
          messageBytes: 65_536,
          perCaller: { ...perCaller, connections: 4, bytes: 33_554_432 },
        },
      },
    ],
    files: {
      allow: [at('certs')],
      wellKnown: [],
      names: { 'sds://gateway': 'file-root:/a/ca.crt' },
      expired: 'serve',
    },
    names: { default: 'own', root: 'roots', all: 'ALL' },
    sds: {
      takeover: true,
      refusedNames: 'omit',
    },
    admin: { address: { host: '::1', port: 15_100 } },
    health: { address: { host: '0.0.0.0', port: 15_121 } },
    drain: 0,
    log: { level: everyScope('debug'), format: 'pretty' },
    keyFormat: 'pkcs8',
    keyGenerator: 'auto',
  })
})

test('the admin endpoint is in the folder of the first socket, and a path too long for it refuses nothing', async () => {
  const ca = 'ca: { plugin: embedded }\n'
  const far = 'x'.repeat(100 - directory.length)
  const [web, api] = ['web', 'api'].map(name => `spiffe://cluster.local/${name}`)
  const cases = [
    [`sockets: [{ path: run/sds.sock, onDemand: true }]`, 'run/admin.sock'],
    [`identities: [{ id: ${web}, socket: own/s }]\nsockets: [{ path: run/sds.sock }]`, 'run/admin.sock'],
    [`identities: [${web}, { id: ${api}, socket: { path: own/s } }]`, 'own/admin.sock'],
    ['identities: [{ range: "spiffe://cluster.local/{1..2}", socket: "own/{name}/s" }]', 'own/admin.sock'],
    [`identities: [{ id: ${web}, socket: ${far}/s }]`, `${far}/admin.sock`],
  ]
  for (const [text = '', path = ''] of cases)
    assert.deepEqual((await load(ca + text)).config.admin.address, { path: join(directory, path) }, text)
})

test('omitted keys have the documented defaults', async () => {
  const { config, warnings } = await load(MINIMAL)
  assert.deepEqual(JSON.parse(JSON.stringify({ ...config, ca: caOf(config) })), {
    trustDomain: 'cluster.local',
    keyType: 'ecdsa-p256',
    ttl: 86_400_000,
    rotation: { ratio: 0.5, jitter: 0.1, ackWait: 60_000 },
    trust: { poll: 300_000, anchors: [], federated: {} },
    retry: { min: 500, max: 150_000 },
    concurrency: 64,
    rsaKeys: 'simd',
    ca: { plugin: 'embedded', keyType: 'ecdsa-p256', intermediate: false },
    identities: [{ id: 'spiffe://cluster.local/ns/default/sa/web' }],
    removal: { grace: 300_000 },
    idle: { after: 3_600_000, action: 'renew' },
    maxIdentities: 20_000,
    sharedFolders: [],
    sockets: [
      {
        path: join(directory, 'run/sds.sock'),
        mode: 0o660,
        workloadApi: false,
        allow: [],
        onDemand: false,
        limits: {
          connections: 20_000,
          streams: 40_000,
          names: 1_000,
          messageBytes: 262_144,
          perCaller: {
            connections: 10_000,
            streams: 20_000,
            names: 50_000,
            requestsPerSecond: 10_000,
            bytes: 100_663_296,
            files: 1_000,
            identitiesPerMinute: 1_000,
          },
        },
      },
    ],
    files: {
      wellKnown: ['/etc/certs', '/var/run/secrets/workload-spiffe-credentials'],
      names: {},
      expired: 'withhold',
    },
    names: { default: 'default', root: 'ROOTCA', all: 'ALL' },
    sds: {
      takeover: false,
      refusedNames: 'omit',
    },
    admin: { address: { path: join(directory, 'run/admin.sock') } },
    drain: 5_000,
    log: { level: everyScope('info'), format: 'json' },
    keyFormat: 'pkcs8',
    keyGenerator: 'auto',
  })
  assert.deepEqual(warnings, [])
})

test('logs are pretty by default where they go to a terminal', async () => {
  writeFileSync(file, MINIMAL)
  const sources = { file, environment: {}, workingDirectory: '/elsewhere', terminal: true }
  const { config } = await loadConfig(sources)
  assert.equal(config.log.format, 'pretty')
})

test('an embedded CA accepts a directory, a key type and an intermediate', async () => {
  const { config } = await load(
    MINIMAL.replace(
      '{ plugin: embedded }',
      '{ plugin: embedded, directory: ca, keyType: rsa-2048, intermediate: true }',
    ),
  )
  assert.deepEqual(caOf(config), {
    plugin: 'embedded',
    directory: join(directory, 'ca'),
    keyType: 'rsa-2048',
    intermediate: true,
  })
})

test('a trust domain that programs in Go cannot read in a certificate is warned about', async () => {
  const warningsOf = async (trustDomain: string) =>
    (await load(`trustDomain: ${JSON.stringify(trustDomain)}\n${MINIMAL.replaceAll('cluster.local', trustDomain)}`))
      .warnings
  for (const trustDomain of ['a..b', 'a.', '.a', '...'])
    assert.match((await warningsOf(trustDomain)).join(), /trustDomain \S+ has a dot .* Go .* cannot parse/, trustDomain)
  for (const trustDomain of [`${'a'.repeat(64)}.b`, `${'a.'.repeat(126)}aa`])
    assert.match((await warningsOf(trustDomain)).join(), /more than 63 characters, .* some versions of Go/, trustDomain)
  for (const trustDomain of ['cluster.local', 'a', '-a_', '1.2.3.4', 'a'.repeat(63)])
    assert.deepEqual(await warningsOf(trustDomain), [], trustDomain)
})

test('an admin endpoint that others can reach is warned about', async () => {
  const { warnings } = await load(`${MINIMAL}admin: { address: "0.0.0.0:1" }`)
  assert.match(warnings.join(), /admin\.address 0\.0\.0\.0:1 is reachable from other machines/)
})

test('an admin socket in the folder that pods mount is warned of, elsewhere it is not', async () => {
  const config = (admin: string) => `ca: { plugin: embedded }
kubernetes: { nodeName: node }
sockets: [{ path: run/pods/socket, identify: kubernetes }]
${admin}`
  const { warnings } = await load(config('admin: { address: "unix:run/pods/admin.sock" }'))
  assert.match(
    warnings.join(),
    /admin\.address .*pods\/admin\.sock is in the folder that pods mount for .*pods\/socket/,
  )
  const unnamed = await load(config(''))
  assert.deepEqual(unnamed.config.admin.address, { path: join(directory, 'run/admin.sock') })
  assert.deepEqual(unnamed.warnings, [])
})
