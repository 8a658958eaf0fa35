/** The Helm chart in deploy/helm: what it renders by helm itself, and by a real API server where LIVERY_KUBE names its kubeconfig. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { livery } from './livery-process.ts'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const chart = join(repository, 'deploy/helm/livery')
const EXAMPLES = readdirSync(join(chart, 'examples'))
const KUBECONFIG = process.env['LIVERY_KUBE']

const skip = isThere('helm', 'version') ? false : 'no helm on PATH (go install helm.sh/helm/v3/cmd/helm@v3.22.0)'
const skipCluster =
  skip ||
  (KUBECONFIG === undefined && 'LIVERY_KUBE names no kubeconfig of a cluster-admin at an API server for tests') ||
  (isThere('kubectl', 'version', '--client') ? false : 'no kubectl on PATH')

const folder = temporaryFolder({ after })

interface Rendered {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec?: unknown
  readonly data?: unknown
  readonly rules?: unknown
}

interface Run {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

function isThere(command: string, ...args: readonly string[]): boolean {
  return spawnSync(command, args).status === 0
}

function run(command: string, args: readonly string[], input?: string): Run {
  return spawnSync(command, args, { encoding: 'utf8', maxBuffer: 2 ** 26, ...(input !== undefined && { input }) })
}

/** The configuration that values need at least. */
const TRIAL = { ca: { plugin: 'embedded', directory: '/run/livery/ca' } }

function helm(command: string, values: object | string, ...args: readonly string[]): Run {
  const file = typeof values === 'string' ? join(chart, 'examples', values) : join(folder, `${randomUUID()}.yaml`)
  if (typeof values !== 'string') writeFileSync(file, stringify({ config: TRIAL, ...values }))
  return run('helm', [
    command,
    ...args,
    chart,
    '--namespace',
    'livery-system',
    '--kube-version',
    '1.36.0',
    '--values',
    file,
  ])
}

function render(values: object | string, name = 'livery'): readonly Rendered[] {
  const { status, stdout, stderr } = helm('template', values, name)
  assert.equal(status, 0, stderr)
  return parseAllDocuments(stdout).map(document => document.toJS())
}

function only(kind: string, objects: readonly Rendered[]): Rendered {
  const found = objects.filter(object => object.kind === kind)
  assert.equal(found.length, 1, kind)
  const [object] = found
  assert.ok(object)
  return object
}

/** Values with all that is off by default. */
const EVERYTHING = {
  config: {
    ca: { plugin: 'failover', cas: [{ plugin: 'kubernetes-csr', signerName: 'example.com/workloads' }, TRIAL.ca] },
    sds: { takeover: true },
    store: { directory: '/run/livery-store' },
    kubernetes: {},
  },
  storeDirectory: '/run/livery-store',
  caToken: { audience: 'istio-ca' },
  hostNetwork: true,
  image: { digest: `sha256:${'0'.repeat(64)}` },
  imagePullSecrets: [{ name: 'registry' }],
  rbac: { tokenRequests: true },
  updateStrategy: { maxUnavailable: 0, maxSurge: '10%' },
  seLinuxOptions: { type: 'spc_t' },
  serviceAccount: { annotations: { 'example.com/role': 'livery' } },
  affinity: { nodeAffinity: {} },
  podAnnotations: { 'example.com/team': 'mesh' },
  podLabels: { team: 'mesh' },
  extraEnv: [{ name: 'TRUST_DOMAIN', value: 'cluster.local' }],
  networkPolicy: { from: [{ namespaceSelector: { matchLabels: { team: 'monitoring' } } }] },
  podMonitor: { enabled: true, labels: { release: 'prometheus' } },
  prometheusRule: { enabled: true, labels: { release: 'prometheus' } },
  user: 0,
}

/** The paths of all values, those of a mapping in place of the mapping. */
function leaves(value: unknown, path: readonly string[] = []): readonly (readonly [string, unknown])[] {
  const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isMapping || Object.keys(value).length === 0) return [[path.join('.'), value]]
  return Object.entries(value).flatMap(([key, each]) => leaves(each, [...path, key]))
}

const VALUES: Readonly<Record<string, unknown>> = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'))
/** Mappings in the form of another program: taken whole. */
const WHOLE = new Set(['config', 'resources', 'nodeSelector', 'tolerations'])

test('the page of the chart lists each value with its default', () => {
  const page = readFileSync(join(chart, 'README.md'), 'utf8')
  const rows = new Map([...page.matchAll(/^\| `([\w.]+)` \| (.*?) \|/gm)].map(([, key = '', cell = '']) => [key, cell]))
  const defaults = Object.entries(VALUES).flatMap(([key, value]) =>
    WHOLE.has(key) ? [[key, undefined] as const] : leaves(value, [key]),
  )
  assert.deepEqual([...rows.keys()].sort(), defaults.map(([key]) => key).sort())
  for (const [key, value] of defaults)
    if (value !== undefined) assert.equal(rows.get(key), value === '' ? '–' : `\`${inline(value)}\``, key)
})

function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.join(', ')}]`
  return typeof value === 'object' ? '{}' : String(value)
}

test('the schema has each value, and no other', () => {
  interface Schema {
    readonly properties?: Readonly<Record<string, Schema>>
    readonly additionalProperties?: unknown
  }
  const schema: Schema = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8'))
  const compare = ({ properties = {} }: Schema, values: object, path: string): void => {
    assert.deepEqual(Object.keys(properties).sort(), Object.keys(values).sort(), path)
    for (const [key, value] of Object.entries(values)) {
      const inner = properties[key]
      if (inner?.additionalProperties === false) compare(inner, value, `${path}.${key}`)
    }
  }
  assert.equal(schema.additionalProperties, false)
  compare(schema, { ...VALUES, global: {} }, 'values')
})

for (const example of EXAMPLES)
  test(`examples/${example}: helm finds nothing wrong, and the agent takes its configuration`, { skip }, async () => {
    const { status, stdout } = helm('lint', example, '--strict')
    assert.equal(status, 0, stdout)
    const { data } = only('ConfigMap', render(example))
    const file = join(folder, example)
    writeFileSync(file, Object(data)['livery.yaml'])
    const checked = await livery(['check-config', '--config', file], { cwd: folder, env: { NODE_NAME: 'node' } })
    // The files of the CA are on the node.
    const warnings = checked.stderr
      .split('\n')
      .filter(line => !/^(|.*: ENOENT.* The agent reads it as soon as it can\.)$/.test(line))
    assert.deepEqual([checked.code, warnings], [0, []])
  })

test('the plain manifests are what the chart makes', { skip }, () => {
  const { status, stderr } = run(process.execPath, [join(repository, 'scripts/manifests.mjs'), '--check'])
  assert.deepEqual([status, stderr], [0, ''])
})

test('the pod has a read-only root, one capability, and no token that it does not need', { skip }, () => {
  for (const example of EXAMPLES) {
    const { spec } = Object(only('DaemonSet', render(example)).spec).template
    assert.deepEqual([spec.hostPID, spec.hostNetwork, spec.priorityClassName], [true, false, 'system-node-critical'])
    const { seccompProfile, runAsNonRoot, runAsUser } = spec.securityContext
    assert.deepEqual([seccompProfile.type, runAsNonRoot, runAsUser], ['RuntimeDefault', true, 15_100])
    const [container] = spec.containers
    assert.deepEqual(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'], add: ['DAC_OVERRIDE'] },
    })
    const writable = container.volumeMounts.filter((mount: { readonly readOnly?: boolean }) => mount.readOnly !== true)
    assert.deepEqual(writable, [{ name: 'run', mountPath: '/run/livery' }])
    assert.equal(spec.automountServiceAccountToken, true)
  }
})

test('a pod that asks the API server for nothing has no token', { skip }, () => {
  const { spec } = Object(only('DaemonSet', render({ config: { ...TRIAL, kubernetes: null } })).spec).template
  assert.equal(spec.automountServiceAccountToken, false)
})

test('without capabilities, or as root, the agent is started without the launcher', { skip }, () => {
  const commandOf = (values: object) =>
    Object(only('DaemonSet', render(values)).spec).template.spec.containers[0].command
  const launcher = ['/usr/bin/setpriv', '--inh-caps=+chown', '--ambient-caps=+chown']
  assert.deepEqual(commandOf({ capabilities: ['CHOWN'] }), [...launcher, '/usr/bin/livery', 'run'])
  assert.deepEqual(commandOf({ capabilities: [] }), ['/usr/bin/livery', 'run'])
  assert.deepEqual(commandOf({ user: 0 }), ['/usr/bin/livery', 'run'])
})

const CSR = {
  apiGroups: ['certificates.k8s.io'],
  resources: ['certificatesigningrequests'],
  verbs: ['create', 'list', 'watch'],
}
const PODS = { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] }
const TOKENS = { apiGroups: [''], resources: ['serviceaccounts/token'], verbs: ['create'] }
const CSR_CA = { plugin: 'kubernetes-csr', signerName: 'example.com/workloads' }

for (const [what, values, rules] of [
  ['identities of the configuration alone', { config: { ...TRIAL, kubernetes: null } }, []],
  ['pods of the node', {}, [PODS]],
  ['a signer of the cluster', { config: { ca: CSR_CA } }, [PODS, CSR]],
  [
    'a signer of the cluster after another CA',
    { config: { ca: { plugin: 'failover', cas: [TRIAL.ca, CSR_CA] } } },
    [PODS, CSR],
  ],
  ['tokens of pods', { rbac: { tokenRequests: true } }, [PODS, TOKENS]],
  ['rights that somebody else grants', { rbac: { create: false } }, []],
] as const)
  test(`the rights of the service account, with ${what}`, { skip }, () => {
    const granted = render(values).filter(({ kind }) => /Role$/.test(kind))
    assert.deepEqual(
      granted.map(({ kind, rules: each }) => [kind, each]),
      rules.length === 0 ? [] : [['ClusterRole', rules]],
    )
  })

test('a namespace of Secrets has a Role of its own, for the Secrets that are named or for all', { skip }, () => {
  const config = { ...TRIAL, kubernetes: null, kubernetesSecrets: { namespaces: ['edge', 'shop'] } }
  const objects = render({ config, rbac: { secrets: { edge: ['web', 'web-cacert'], shop: [] } } })
  const rule = { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'list', 'watch'] }
  assert.deepEqual(
    objects.flatMap(({ kind, metadata, rules }) => (/Role$/.test(kind) ? [[kind, metadata.namespace, rules]] : [])),
    [
      ['Role', 'edge', [{ ...rule, resourceNames: ['web', 'web-cacert'] }]],
      ['Role', 'shop', [rule]],
    ],
  )
  const bound = objects.filter(({ kind }) => kind === 'RoleBinding').map(({ metadata }) => metadata.namespace)
  assert.deepEqual(bound, ['edge', 'shop'])
  assert.equal(Object(only('DaemonSet', objects).spec).template.spec.automountServiceAccountToken, true)
})

test('names that YAML would read as numbers stay texts', { skip }, () => {
  const values = {
    fullnameOverride: '1234',
    serviceAccount: { name: '1234' },
    caToken: { audience: '1234' },
    priorityClassName: '1234',
    rbac: { secrets: { 1234: [] } },
  }
  assert.doesNotMatch(JSON.stringify(render(values, '1234')), /:1234\b/)
})

test('the rules for Prometheus are installed as they are, and only when they are wanted', { skip }, () => {
  const rules = parse(readFileSync(join(repository, 'deploy/prometheus/livery.rules.yaml'), 'utf8'))
  assert.deepEqual(only('PrometheusRule', render(EVERYTHING)).spec, rules)
  assert.ok(render({}).every(({ kind }) => kind !== 'PrometheusRule'))
})

test("the chart's copy of the rules for Prometheus is current", () => {
  const [copy, rules] = [join(chart, 'rules'), join(repository, 'deploy/prometheus')].map(folder =>
    readFileSync(join(folder, 'livery.rules.yaml'), 'utf8'),
  )
  assert.equal(copy, rules)
})

for (const [values, says] of [
  [{ config: {} }, /config\.ca is missing/],
  [{ config: { ...TRIAL, health: { address: 'localhost' } } }, /config\.health\.address "localhost" has no port/],
  [{ updateStrategy: { maxSurge: 1 } }, /maxUnavailable 1 and maxSurge 1: exactly one of them must be 0/],
  [{ updateStrategy: { maxUnavailable: 0 } }, /maxUnavailable 0 and maxSurge 0: exactly one/],
  [{ updateStrategy: { maxUnavailable: 0, maxSurge: 1 } }, /needs config\.sds\.takeover: true/],
  [{ config: { ...TRIAL, store: { directory: '/s' } } }, /config\.store\.directory is "\/s" and storeDirectory ""/],
  [{ storeDirectory: '/s' }, /config\.store\.directory is "" and storeDirectory "\/s"/],
  [{ storeDirectory: 's' }, /storeDirectory/],
  [{ capabilities: ['SYS_ADMIN'] }, /capabilities/],
  [{ networkPolicy: { enabld: true } }, /enabld/],
  [{ confg: {} }, /confg/],
  [{ extraEnv: [{ name: 'PORT', value: 1 }] }, /extraEnv/],
  [{ rbac: { secrets: ['edge'] } }, /secrets/],
  [{ rbac: { secrets: { edge: 'web' } } }, /edge/],
  [{ rbac: { tokenRequests: 'always' } }, /tokenRequests/],
  [{ hostPID: false }, /\/run\/livery\/pods\/socket identifies pods, which needs hostPID: true/],
] as const)
  test(`helm refuses ${JSON.stringify(values)}`, { skip }, () => {
    const { status, stderr } = helm('template', values, 'livery')
    assert.notEqual(status, 0)
    assert.match(stderr, says)
  })

function kubectl(args: readonly string[], input?: string): Run {
  return run('kubectl', ['--kubeconfig', KUBECONFIG ?? '', ...args], input)
}

/** Applies as `kubectl apply --server-side` does, where the server refuses every field that it does not know. */
function apply(objects: readonly Rendered[], ...args: readonly string[]): Run {
  const text = objects.map(object => stringify(object)).join('---\n')
  return kubectl(['apply', '--server-side', '--validate=strict', ...args, '--filename', '-'], text)
}

/** A release of its own: names of the cluster are shared with whatever else is tested there. */
function install(
  t: TestContext,
  values: object | string,
): { readonly name: string; readonly namespace: string; readonly result: Run } {
  const name = `livery-${randomUUID().slice(0, 8)}`
  // No API server knows these before their operator is there.
  const objects = render(values, name)
    .filter(({ kind }) => kind !== 'PodMonitor' && kind !== 'PrometheusRule')
    .map(object => JSON.parse(JSON.stringify(object).replaceAll('"livery-system"', JSON.stringify(name))))
  assert.equal(kubectl(['create', 'namespace', name]).status, 0)
  t.after(() => {
    const kinds = 'clusterrole,clusterrolebinding,csidriver'
    kubectl(['delete', kinds, '--selector', `app.kubernetes.io/instance=${name}`, '--ignore-not-found'])
    kubectl(['delete', 'namespace', name, '--wait=false'])
  })
  return { name, namespace: name, result: apply(objects) }
}

for (const [what, values] of [
  ...EXAMPLES.map(example => [`examples/${example}`, example] as const),
  ['everything', EVERYTHING],
] as const)
  test(`a real API server takes every object strictly: ${what}`, { skip: skipCluster, timeout: 60_000 }, t => {
    const { result, namespace, name } = install(t, values)
    assert.equal(result.status, 0, result.stderr)
    const there = kubectl(['get', 'daemonset,configmap', name, '--namespace', namespace, '--output', 'name'])
    assert.deepEqual(there.stdout.trim().split('\n'), [`daemonset.apps/${name}`, `configmap/${name}`])
  })

test('the API server refuses an unknown field and both numbers of an update, as the chart does', {
  skip: skipCluster,
}, () => {
  const daemonSet = only('DaemonSet', render({}))
  const unknown = { ...daemonSet, spec: { ...Object(daemonSet.spec), updateStratgy: {} } }
  const both = { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1, maxSurge: 1 } }
  for (const [object, says] of [
    [unknown, /updateStratgy/],
    [{ ...daemonSet, spec: { ...Object(daemonSet.spec), updateStrategy: both } }, /maxSurge|maxUnavailable/],
  ] as const) {
    const { status, stderr } = apply(
      [{ ...object, metadata: { name: 'livery', namespace: 'default' } }],
      '--dry-run=server',
    )
    assert.notEqual(status, 0)
    assert.match(stderr, says)
  }
})

test('the service account may read the Secrets that rbac.secrets names, and no others', { skip: skipCluster }, t => {
  const namespaces = [0, 1].map(() => `livery-${randomUUID().slice(0, 8)}`)
  for (const name of namespaces) {
    assert.equal(kubectl(['create', 'namespace', name]).status, 0)
    t.after(() => kubectl(['delete', 'namespace', name, '--wait=false']))
  }
  const [edge = '', shop = ''] = namespaces
  const { namespace, name } = install(t, { rbac: { secrets: { [edge]: ['web'], [shop]: [] } } })
  const user = `system:serviceaccount:${namespace}:${name}`
  const rulesIn = (where: string) =>
    kubectl(['auth', 'can-i', '--list', '--as', user, '--namespace', where])
      .stdout.split('\n')
      .flatMap(row => (/^(secrets|\*)/.test(row) ? [row.replaceAll(/ +/g, ' ')] : []))
  assert.deepEqual([edge, shop, namespace, 'kube-system'].map(rulesIn), [
    ['secrets [] [web] [get list watch]'],
    ['secrets [] [] [get list watch]'],
    [],
    [],
  ])
})

test('the service account may do what its configuration needs, and nothing else', { skip: skipCluster }, t => {
  const may = (account: { readonly namespace: string; readonly name: string }, ...what: readonly string[]): boolean => {
    const user = `system:serviceaccount:${account.namespace}:${account.name}`
    return kubectl(['auth', 'can-i', ...what, '--as', user, '--all-namespaces']).stdout.trim() === 'yes'
  }
  const pods = install(t, {})
  const signer = install(t, { config: { ca: CSR_CA, kubernetes: null } })
  const all = install(t, EVERYTHING)
  for (const [what, ...allowed] of [
    [['list', 'pods'], true, false, true],
    [['watch', 'pods'], true, false, true],
    [['delete', 'pods'], false, false, false],
    [['create', 'certificatesigningrequests.certificates.k8s.io'], false, true, true],
    [['approve', 'signers.certificates.k8s.io'], false, false, false],
    [['create', 'serviceaccounts', '--subresource=token'], false, false, true],
    [['get', 'secrets'], false, false, false],
    [['list', 'nodes'], false, false, false],
  ] as const)
    assert.deepEqual(
      [pods, signer, all].map(account => may(account, ...what)),
      allowed,
      what.join(' '),
    )
})
