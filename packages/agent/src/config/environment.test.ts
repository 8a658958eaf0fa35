import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { ConfigError, describeConfigError, type Origin } from '../schema/config-error.ts'
import { type ConfigNode, Location } from '../schema/config-tree.ts'
import { everyScope } from '../schema/log-level.ts'
import { type Environment, environmentSwitches } from './environment.ts'
import { environmentSettings } from './environment-settings.ts'
import { configFile } from './layers.ts'
import { type Config, loadConfig } from './load.ts'
import { configJson, printConfig } from './print.ts'

const directory = temporaryFolder({ after })
const file = join(directory, 'conf', 'livery.yaml')
mkdirSync(join(directory, 'conf'))
mkdirSync(join(directory, 'empty'))

const CITADEL = `ttl: 12h
ca: { plugin: citadel, address: "ca:15012", rootCert: root.pem }
identities: [spiffe://cluster.local/a]
sockets: [{ path: s.sock }]
`

async function load(environment: Environment, text: string = CITADEL, admin?: string) {
  writeFileSync(file, text)
  return await loadConfig({ file, admin, environment, workingDirectory: directory, terminal: false })
}

/** Where the value at `rotation.ratio` is written. */
function originOf({ root }: { readonly root: ConfigNode }, path: string): Origin {
  return new Location(root, path.split('.')).origin
}

/** The section as it was written: the plugin's keys and the agent's. */
function caOf({ ca: { plugin, options, credentials: _, ...common } }: Config): object {
  return { plugin: plugin.name, ...options, ...common }
}

test('NODE_NAME names the node of a section kubernetes, and makes none', async () => {
  const kubernetes = 'ca: { plugin: embedded }\nkubernetes: { selector: "" }\nsockets: [{ path: /sds }]\n'
  const loaded = await load({ NODE_NAME: 'node-7' }, kubernetes)
  assert.equal(loaded.config.kubernetes?.nodeName, 'node-7')
  assert.deepEqual(loaded.config.kubernetes.selector, [])
  assert.equal((await load({ NODE_NAME: 'node-7' })).config.kubernetes, undefined)
})

/** Each variable of Istio, a value, and the key that it sets. */
const VARIABLES: readonly [name: string, value: string, path: string, expected: unknown][] = [
  ['SECRET_TTL', '1h0m0s', 'ttl', 3_600_000],
  ['SECRET_GRACE_PERIOD_RATIO', '0.3', 'rotation.ratio', 0.7],
  ['SECRET_GRACE_PERIOD_RATIO_JITTER', '0.01', 'rotation.jitter', 0.01],
  ['MINIMUM_DRAIN_DURATION', '7s', 'drain', 7_000],
  ['WORKLOAD_RSA_KEY_SIZE', '4096', 'keyType', 'rsa-4096'],
  ['ECC_SIGNATURE_ALGORITHM', 'ECDSA', 'keyType', 'ecdsa-p256'],
  ['ECC_CURVE', 'P384', 'keyType', 'ecdsa-p384'],
  ['CA_ADDR', 'istiod:15012', 'ca.address', 'istiod:15012'],
  ['CA_ADDRESS', 'https://istiod:15012', 'ca.address', 'https://istiod:15012'],
  ['CA_PROVIDER', 'Citadel', 'ca.plugin', 'citadel'],
  ['PROXY_CONFIG', '{"discoveryAddress":"istiod-canary:15012"}', 'ca.address', 'istiod-canary:15012'],
  ['PROXY_CONFIG', 'tracing: {}\ndiscoveryAddress: istiod-canary:15012\n', 'ca.address', 'istiod-canary:15012'],
  ['PILOT_CERT_PROVIDER', 'custom', 'ca.rootCert', join(directory, 'etc/certs/root-cert.pem')],
  ['OUTPUT_CERTS', './certs', 'output.directory', join(directory, 'certs')],
  ['CA_ROOT_CA', 'SYSTEM', 'ca.rootCert', 'system'],
  ['CA_ROOT_CA', './root.pem', 'ca.rootCert', join(directory, 'root.pem')],
  ['ISTIOD_SAN', 'istiod.istio-system.svc', 'ca.serverName', 'istiod.istio-system.svc'],
  ['ALT_CA_HOSTNAME', 'istiod', 'ca.serverName', 'istiod'],
  ['ISTIO_META_CLUSTER_ID', 'c1', 'ca.clusterId', 'c1'],
  ['CLUSTER_ID', 'c2', 'ca.clusterId', 'c2'],
  ['ISTIO_META_CERT_SIGNER', 'x.io/y', 'ca.certSigner', 'x.io/y'],
  ['AUTH_TOKEN', './token', 'ca.tokenFile', join(directory, 'token')],
  ['CRL_PATH', './crl.pem', 'trust.crl', join(directory, 'crl.pem')],
  ['CA_HEADER_X_TENANT', 'blue', 'ca.headers.X_TENANT', 'blue'],
  ['PROV_CERT', '/etc/certs', 'ca.clientCertificate.certFile', '/etc/certs/cert-chain.pem'],
  ['PROV_CERT', '/etc/certs', 'ca.clientCertificate.keyFile', '/etc/certs/key.pem'],
  ['PKCS8_KEY', 'false', 'keyFormat', 'traditional'],
  ['PKCS8_KEY', 'true', 'keyFormat', 'pkcs8'],
  ['LIVERY_KEYGEN', 'webcrypto', 'keyGenerator', 'webcrypto'],
]

/** They have no key in the file, and so no origin but one. */
const SWITCHES: ReadonlySet<string> = new Set(['keyFormat', 'keyGenerator'])

for (const [name, value, path, expected] of VARIABLES) {
  test(`${name}=${value} sets ${path}`, async () => {
    const loaded = await load({ [name]: value })
    const { config } = loaded
    const values = { ...config, ca: caOf(config) }
    const found = path.split('.').reduce<unknown>((at, key) => Reflect.get(Object(at), key), values)
    assert.equal(found, expected)
    if (!SWITCHES.has(path)) assert.equal(originOf(loaded, path).kind, 'environment')
  })
}

test('LOG sets the levels of all scopes and of some, in place of the file', async () => {
  const loaded = await load({ LOG: 'warn,ca:trace' }, `${CITADEL}log: { level: debug }\n`)
  assert.deepEqual(loaded.config.log.level, { ...everyScope('warn'), ca: 'trace' })
  assert.equal(originOf(loaded, 'log.level').kind, 'environment')
  const { config } = await load({ LOG: 'sds:debug' })
  assert.deepEqual(config.log.level, { ...everyScope('info'), sds: 'debug' })
})

test('TRUST_DOMAIN sets the trust domain', async () => {
  const { config } = await load({ TRUST_DOMAIN: 'td2' }, CITADEL.replaceAll('cluster.local', 'td2'))
  assert.equal(config.trustDomain, 'td2')
})

test('flag comes before environment, environment before file, file before default', async () => {
  const text = `${CITADEL}admin: { address: "127.0.0.1:1" }\n`
  const loaded = await load({ SECRET_TTL: '6h' }, text, '127.0.0.1:2')
  const { config } = loaded
  assert.deepEqual(
    [config.admin.address.port, originOf(loaded, 'admin.address')],
    [2, { kind: 'flag', flag: '--admin' }],
  )
  assert.deepEqual([config.ttl, originOf(loaded, 'ttl').kind], [21_600_000, 'environment'])
  const plain = await load({}, text)
  assert.deepEqual([plain.config.ttl, originOf(plain, 'ttl')], [43_200_000, { kind: 'file', file, line: 1 }])
  assert.equal(plain.config.admin.address.port, 1)
  const bare = await load({})
  assert.equal(originOf(bare, 'admin.address').kind, 'default')
})

test('paths of the file start at the file, paths of the environment at the working directory', async () => {
  const { config } = await load({ AUTH_TOKEN: 'token' })
  assert.equal(config.ca.rootCert, join(directory, 'conf', 'root.pem'))
  assert.equal(config.ca.tokenFile, join(directory, 'token'))
})

test('an empty variable is an unset one', async () => {
  assert.deepEqual(environmentSettings({ CA_ADDR: '', SECRET_TTL: '', WORKLOAD_RSA_KEY_SIZE: '' }), [])
})

test('the error for a wrong value names its variable and quotes the value', async () => {
  await assert.rejects(load({ SECRET_TTL: 'soon' }), /environment SECRET_TTL: ttl: "soon" is not a duration/)
  await assert.rejects(
    load({ SECRET_GRACE_PERIOD_RATIO: '2' }),
    /environment SECRET_GRACE_PERIOD_RATIO: rotation\.ratio: "2" is not a number/,
  )
  await assert.rejects(
    load({ WORKLOAD_RSA_KEY_SIZE: '1024' }),
    /environment WORKLOAD_RSA_KEY_SIZE: keyType: "1024" is none of/,
  )
  await assert.rejects(
    load({ ECC_SIGNATURE_ALGORITHM: 'EdDSA' }),
    /environment ECC_SIGNATURE_ALGORITHM: keyType: "EdDSA"/,
  )
  await assert.rejects(
    load({ CA_PROVIDER: 'GoogleCA' }),
    /environment CA_PROVIDER: ca\.plugin: "GoogleCA" is none of the built-in .* not found as a package from .*Did you mean the built-in google-ca\?/,
  )
  assert.throws(() => environmentSwitches({ PKCS8_KEY: 'yes' }), /environment PKCS8_KEY: "yes" is none of true, false/)
  assert.throws(
    () => environmentSwitches({ LIVERY_KEYGEN: 'fast' }),
    /environment LIVERY_KEYGEN: "fast" is none of native, webcrypto/,
  )
})

test('a token in AUTH_TOKEN itself is refused and not shown', async () => {
  await assert.rejects(
    load({ AUTH_TOKEN: 'eyJhbGciOi.eyJzdWIi.c2ln' }),
    (error: Error) =>
      /AUTH_TOKEN: ca\.tokenFile: holds a token itself/.test(error.message) && !/eyJ/.test(error.message),
  )
})

test('a CA address in the environment makes citadel the plugin only where none is written', async () => {
  const bare = CITADEL.replace(/^ca: .*\n/m, '')
  const loaded = await load({ CA_ADDR: 'istiod:15012', CA_ROOT_CA: 'SYSTEM' }, bare)
  assert.deepEqual([loaded.config.ca.plugin.name, originOf(loaded, 'ca.plugin').kind], ['citadel', 'environment'])
  const embedded = await load({ CA_ADDR: 'istiod:15012' }, CITADEL.replace(/^ca: .*$/m, 'ca: { plugin: embedded }'))
  assert.equal(embedded.config.ca.plugin.name, 'embedded')
  assert.match(
    embedded.warnings.join(),
    /CA_ADDR is set, but ca\.plugin is embedded \(.*livery\.yaml:2\): it has no effect/,
  )
  const named = await load({ CA_PROVIDER: 'Citadel', CA_ADDR: 'a:1', CA_ROOT_CA: 'SYSTEM' }, bare)
  assert.equal(named.config.ca.plugin.name, 'citadel')
})

test("a warning names each variable of Istio's agent and of ztunnel that has no effect, and what to write instead", async () => {
  const harmless = {
    FILE_MOUNTED_CERTS: 'false',
    CREDENTIAL_FETCHER_TYPE: 'JWT',
    FAKE_CA: 'false',
    JWT_POLICY: 'third-party-jwt',
    PILOT_CERT_PROVIDER: 'istiod',
    WORKLOAD_IDENTITY_SOCKET_FILE: 'socket',
    PROXY_CONFIG: '{}',
    XDS_ROOT_CA: '',
  }
  assert.deepEqual((await load(harmless)).warnings, [])
  const { warnings } = await load({
    FILE_MOUNTED_CERTS: 'true',
    CREDENTIAL_FETCHER_TYPE: 'GoogleComputeEngine',
    CREDENTIAL_IDENTITY_PROVIDER: 'other',
    FAKE_CA: 'true',
    JWT_POLICY: 'none',
    PILOT_CERT_PROVIDER: 'k8s.io/signer',
    WORKLOAD_IDENTITY_SOCKET_FILE: 'spire',
    XDS_ROOT_CA: 'SYSTEM',
    XDS_HEADER_TOKEN: 's3cret',
  })
  assert.deepEqual(
    warnings.map(warning => /^[A-Z_]+/.exec(warning)?.[0]),
    [
      'CREDENTIAL_FETCHER_TYPE',
      'CREDENTIAL_IDENTITY_PROVIDER',
      'FAKE_CA',
      'FILE_MOUNTED_CERTS',
      'JWT_POLICY',
      'PILOT_CERT_PROVIDER',
      'WORKLOAD_IDENTITY_SOCKET_FILE',
      'XDS_HEADER_TOKEN',
      'XDS_ROOT_CA',
    ],
  )
  assert.match(warnings.join('\n'), /^FAKE_CA=true has no effect here\. Write ca: \{ plugin: embedded \}/m)
  assert.ok(!warnings.join().includes('s3cret'))
})

test('a sidecar with mounted certificates has them from files, and asks no CA', async () => {
  const sidecar = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'shop' }
  const loadSidecar = (environment: Environment) =>
    loadConfig({
      environment: { ...sidecar, ...environment },
      workingDirectory: join(directory, 'empty'),
      terminal: false,
    })
  const mounted = await loadSidecar({ FILE_MOUNTED_CERTS: 'true' })
  assert.deepEqual([mounted.config.ca.plugin.name, mounted.config.ca.options['layout']], ['file-mount', 'istio'])
  assert.deepEqual(mounted.warnings, [])
  const gke = await loadSidecar({ CA_PROVIDER: 'GkeWorkloadCertificate', CA_ADDR: 'ca:15012' })
  assert.deepEqual([gke.config.ca.plugin.name, gke.config.ca.options['layout']], ['file-mount', 'gke'])
  assert.match(gke.warnings.join(), /CA_ADDR is set, but ca\.plugin is file-mount .*: it has no effect/)
})

test('a CA_ADDR of Google is no istiod: it is refused with the plugin that speaks to it', async () => {
  const sidecar = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'shop' }
  for (const address of ['meshca.googleapis.com:443', 'https://privateca.googleapis.com', 'MeshCA.GoogleAPIs.com:443'])
    await assert.rejects(
      loadConfig({
        environment: { ...sidecar, CA_ADDR: address },
        workingDirectory: join(directory, 'empty'),
        terminal: false,
      }),
      (error: unknown) => {
        const text = error instanceof ConfigError ? describeConfigError(error) : ''
        return /CA_ADDR.*ca\.address.*is a service of Google.*plugin: google-ca/.test(text)
      },
    )
})

test('OUTPUT_CERTS is the output directory of a sidecar', async () => {
  const environment = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'shop', OUTPUT_CERTS: './etc/certs' }
  const workingDirectory = join(directory, 'empty')
  const { config } = await loadConfig({ environment, workingDirectory, terminal: false })
  assert.deepEqual(
    config.identities.map(({ output }) => output),
    [{ directory: join(workingDirectory, 'etc/certs'), mode: 0o600, bundle: false }],
  )
})

test("SERVICE_ACCOUNT and POD_NAMESPACE without a file mean Istio's sidecar", async () => {
  const workingDirectory = join(directory, 'empty')
  const environment = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'shop', TRUST_DOMAIN: 'td', CA_ADDR: 'ca:15012' }
  const { config, file } = await loadConfig({ environment, workingDirectory, terminal: false })
  assert.equal(file, undefined)
  assert.deepEqual(config.identities, [
    {
      id: 'spiffe://td/ns/shop/sa/web',
      socket: { path: join(workingDirectory, 'var/run/secrets/workload-spiffe-uds/socket') },
      tokenFile: undefined,
      wish: undefined,
      output: undefined,
    },
  ])
  assert.deepEqual(caOf(config), {
    plugin: 'citadel',
    address: 'ca:15012',
    impersonate: false,
    rootCert: join(workingDirectory, 'var/run/secrets/istio/root-cert.pem'),
    tokenFile: join(workingDirectory, 'var/run/secrets/tokens/istio-token'),
  })
})

const MOUNTED = 'var/run/secrets'

test("the profile istio fills in what Istio's proxy needs, below what the file writes, and says so", async () => {
  const inPod = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'shop', WORKLOAD_IDENTITY_SOCKET_FILE: 'livery' }
  const text = 'profile: istio\nca: { address: "istiod-canary.istio-system.svc:15012" }\n'
  const loaded = await load(inPod, text)
  const { config } = loaded
  assert.deepEqual(loaded.warnings, [])
  assert.deepEqual(config.sharedFolders, [join(directory, MOUNTED, 'workload-spiffe-uds')])
  const [identity] = config.identities
  assert.equal(identity?.id, 'spiffe://cluster.local/ns/shop/sa/web')
  assert.equal(identity?.socket?.path, join(directory, MOUNTED, 'workload-spiffe-uds/livery'))
  assert.deepEqual(caOf(config), {
    plugin: 'citadel',
    address: 'istiod-canary.istio-system.svc:15012',
    impersonate: false,
    rootCert: join(directory, MOUNTED, 'istio/root-cert.pem'),
    tokenFile: join(directory, MOUNTED, 'tokens/istio-token'),
  })
  const printed = printConfig(loaded)
  assert.match(printed, /workload-spiffe-uds +# profile istio/)
  assert.match(printed, /istiod-canary\S+ +# .*livery\.yaml:2/)
})

test('with pods of a node it asks as their node, and with another CA it sets nothing of istiod', async () => {
  const inPod = { SERVICE_ACCOUNT: 'livery', POD_NAMESPACE: 'livery' }
  const ofNode = await load(inPod, 'profile: istio\nkubernetes: { nodeName: node-1 }\nsockets: [{ path: /sds }]\n')
  assert.deepEqual(ofNode.config.identities, [])
  assert.match(printConfig(ofNode), /impersonate: true +# profile istio/)
  const tokens = 'ca: { credentials: { source: workload-token, audience: istio-ca } }\n'
  const ofPods = await load(
    inPod,
    `profile: istio\nkubernetes: { nodeName: node-1 }\nsockets: [{ path: /sds }]\n${tokens}`,
  )
  assert.match(printConfig(ofPods), /impersonate: false/)
  assert.deepEqual(ofPods.warnings, [])
  const embedded = await load(inPod, 'profile: istio\nca: { plugin: embedded }\n')
  assert.doesNotMatch(printConfig(embedded), /istio-token/)
  await assert.rejects(
    load({}, 'profile: istio\n'),
    /^ConfigError: \S+:1: profile: .*SERVICE_ACCOUNT and POD_NAMESPACE.*$/,
  )
  await assert.rejects(load({}, `profile: linkerd\n${CITADEL}`), /livery\.yaml:1: profile: "linkerd" is none of istio/)
})

test('the list of revoked certificates is sent where the mesh mounts one', async () => {
  const crl = join(directory, MOUNTED, 'istio/crl/ca-crl.pem')
  mkdirSync(join(directory, MOUNTED, 'istio/crl'), { recursive: true })
  const inPod = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'shop' }
  assert.equal((await load(inPod, 'profile: istio\n')).config.trust.crl, undefined)
  writeFileSync(crl, '')
  assert.equal((await load(inPod, 'profile: istio\n')).config.trust.crl, crl)
})

test('without a file and without both variables there is nothing to run, and the message says how', async () => {
  const sources = {
    environment: { SERVICE_ACCOUNT: 'web' },
    workingDirectory: join(directory, 'empty'),
    terminal: false,
  }
  await assert.rejects(
    loadConfig(sources),
    /no --config, no LIVERY_CONFIG, no livery\.yaml in .*empty, and SERVICE_ACCOUNT and POD_NAMESPACE are not both set/,
  )
})

test('--config, LIVERY_CONFIG or livery.yaml in the working directory names the file', async () => {
  const sources = { workingDirectory: join(directory, 'conf'), terminal: false }
  assert.equal(
    configFile({ ...sources, file: 'a.yaml', environment: { LIVERY_CONFIG: '/b.yaml' } }),
    join(directory, 'conf', 'a.yaml'),
  )
  assert.equal(configFile({ ...sources, environment: { LIVERY_CONFIG: '/b.yaml' } }), '/b.yaml')
  assert.equal(configFile({ ...sources, environment: {} }), file)
})

test('the printed configuration says where each value comes from, masks headers, and can be read back', async () => {
  const loaded = await load({ SECRET_TTL: '6h', CA_HEADER_KEY: 's3cret' })
  const printed = printConfig(loaded)
  assert.match(printed, /^ttl: 6h # environment SECRET_TTL$/m)
  assert.match(printed, /^ {2}plugin: citadel # .*livery\.yaml:2$/m)
  assert.match(printed, /^drain: 5s # default$/m)
  assert.match(printed, /^ {4}mode: "0660" # default$/m)
  assert.match(printed, /^ {4}KEY: "\*\*\*"/m)
  assert.doesNotMatch(printed + JSON.stringify(configJson(loaded)), /s3cret/)
  const again = await load({}, printed)
  assert.deepEqual(caOf(again.config), { ...caOf(loaded.config), headers: { KEY: '***' } })
  assert.deepEqual({ ...again.config, ca: undefined }, { ...loaded.config, ca: undefined })
})
