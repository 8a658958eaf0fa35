/** Each file in deploy against the peer that it names: the real API server (LIVERY_KUBE), istiod (LIVERY_PEERS), Envoy. What cannot run is skipped. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { SystemClock } from '@livery/core/plugin'
import { CertificateAuthority } from '../../ca-plugins/src/plugins/embedded/certificate-authority.ts'
import { KubeSigner } from '../../ca-plugins/test/kube-signer.ts'
import { DeployedAgent, type DeployedAgentOptions } from './deployed-agent.ts'
import { ENVOY, noEnvoySince } from './envoy-bench.ts'
import { KubeAdmin, noKube } from './kube-admin.ts'
import { KubeNodes } from './kube-nodes.ts'
import { StartedPod } from './pod-process.ts'
import { Istiod, noIstiod } from './real-istiod.ts'
import { noSharedNode } from './shared-node.ts'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const MANIFESTS = 'deploy/kubernetes'
const ISTIOD = 'istiod.istio-system.svc:15012'
/** The labels by which kubernetes-node.yaml and docs/start/istio.md choose a pod. */
const LABELS = { 'livery.dev/inject': 'true', 'security.istio.io/tlsMode': 'istio' }
const TOKENS = { apiGroups: [''], resources: ['serviceaccounts/token'], verbs: ['create'] }

interface Trial {
  /** Below the repository. */
  readonly file: string
  readonly how?: string
  readonly skip: string | false
  /** Starts what the agent asks. Resolves with what is deployed there. */
  prepare(t: TestContext, namespace: string): Promise<Deployed>
  /** Default: `socket`. */
  readonly socketName?: string
}

type Deployed = Pick<DeployedAgentOptions, 'manifest'> & Partial<DeployedAgentOptions>

const TRIALS: readonly Trial[] = [
  {
    file: `${MANIFESTS}/trial.yaml`,
    skip: noKube || noSharedNode,
    prepare: async () => ({ manifest: read(`${MANIFESTS}/trial.yaml`) }),
  },
  {
    file: `${MANIFESTS}/kubernetes-csr.yaml`,
    skip: noKube || noSharedNode,
    async prepare(t) {
      const manifest = read(`${MANIFESTS}/kubernetes-csr.yaml`)
      await startSigner(t, manifest)
      return { manifest }
    },
  },
  {
    file: `${MANIFESTS}/istiod.yaml`,
    skip: noIstiod || noSharedNode,
    async prepare(t, namespace) {
      const manifest = read(`${MANIFESTS}/istiod.yaml`)
      return { manifest, peer: await startIstiod(t, namespace, accountIn(manifest)) }
    },
  },
  {
    file: `${MANIFESTS}/istiod.yaml`,
    how: 'with the tokens of the pods, for an istiod that trusts no account',
    skip: noIstiod || noSharedNode,
    async prepare(t, namespace) {
      const credentials = 'credentials: { source: workload-token, audience: istio-ca }'
      const manifest = replaced(read(`${MANIFESTS}/istiod.yaml`), 'impersonate: true', credentials)
      return { manifest, rules: [TOKENS], peer: await startIstiod(t, namespace) }
    },
  },
  {
    file: 'deploy/kubernetes-node.yaml',
    skip: noIstiod || noSharedNode,
    async prepare(t, namespace) {
      const manifest = read(`${MANIFESTS}/istiod.yaml`)
      const peer = await startIstiod(t, namespace, accountIn(manifest))
      return { manifest, config: read('deploy/kubernetes-node.yaml'), peer }
    },
  },
  {
    file: 'docs/start/istio.md',
    how: 'one agent per node',
    skip: noIstiod || noSharedNode,
    socketName: 'livery',
    async prepare(t, namespace) {
      const [, text = ''] =
        /```yaml\n( *profile: istio\n *kubernetes:[\s\S]*?)```/.exec(read('docs/start/istio.md')) ?? []
      // The profile has this address.
      const moved = `ca: { address: "${ISTIOD}" }\nhealth: { address: "0.0.0.0:15121" }\n`
      const config = `${text.replaceAll(/^ {3}/gm, '')}${moved}`
      // Where Istio's template mounts it.
      const mounted = replaced(read(`${MANIFESTS}/istiod.yaml`), 'path: token', 'path: istio-token')
      const manifest = replaced(mounted, 'mountPath: /var/run/secrets/livery', 'mountPath: /var/run/secrets/tokens')
      return { manifest, config, peer: await startIstiod(t, namespace, accountIn(manifest)) }
    },
  },
]

for (const { file, how, skip, prepare, socketName = 'socket' } of TRIALS) {
  const what = how === undefined ? file : `${file}, ${how}`
  test(`${what}: a pod of the node gets its certificate`, { skip, timeout: 300_000 }, async t => {
    const kube = new KubeAdmin()
    await using nodes = await KubeNodes.make(kube)
    const namespace = `${nodes.name}-system`
    const deployed = await prepare(t, namespace)
    await using agent = await DeployedAgent.start({ kube, node: nodes.name, namespace, ...deployed })
    await nodes.addAccount('web')
    const uid = await nodes.createPod({ name: 'web', account: 'web', labels: LABELS })
    const identity = `spiffe://cluster.local/ns/${nodes.name}/sa/web`
    const issued = await agent.logged(`"event":"issued","resource":"${identity}"`)
    const known = await agent.logged('"event":"pod-added"')
    t.diagnostic(`${timeOf(issued) - timeOf(known)} ms from the pod's event to its certificate`)
    await using pod = await StartedPod.start(agent.groupOf(uid))
    const answer = await pod.ask(agent.socket(socketName), 'default', 'ROOTCA')
    assert.deepEqual(answer, { identities: { default: identity, ROOTCA: 'roots' } })
  })
}

/** The examples, each with the first minor version of Envoy that takes it. */
const ENVOYS: Readonly<Record<string, number>> = {
  'api.yaml': 36,
  'web.yaml': 36,
  'tenants.yaml': 38,
  'gateway.yaml': 36,
  'token.yaml': 37,
}

for (const [file, since] of Object.entries(ENVOYS))
  test(`deploy/envoy/${file} is what Envoy takes`, { skip: noEnvoySince(since) }, () => {
    const path = join(repository, 'deploy/envoy', file)
    const { status, stderr } = spawnSync(ENVOY, ['--mode', 'validate', '-c', path], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
  })

/** Below deploy: what runs it. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'envoy/livery-sds.yaml': 'envoy.test.ts',
  'grafana/panels.mjs': 'monitoring.test.ts',
  'helm/livery': 'helm-chart.test.ts',
  'image/rootfs.mjs': 'image.test.ts',
  'prometheus/livery.rules.yaml': 'monitoring.test.ts',
  'prometheus/livery.rules.test.yaml': 'monitoring.test.ts',
}

/** Below deploy: why it is not run. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'grafana/livery.json': 'no Grafana is here: promtool reads its queries in monitoring.test.ts',
  'systemd/livery.service': 'no systemd runs here: systemd-analyze judges the unit in systemd-unit.test.ts',
  'systemd/takeover.conf': 'no systemd runs here: systemd-analyze judges it in systemd-unit.test.ts',
}

for (const [file, reason] of Object.entries(NOT_RUN)) test(`deploy/${file} runs`, { skip: reason }, () => {})

test('every file in deploy is tried, or is skipped aloud', () => {
  const here = [...TRIALS.map(({ file }) => file), ...Object.keys(ENVOYS).map(file => `deploy/envoy/${file}`)]
  const named = [...here, ...[...Object.keys(ELSEWHERE), ...Object.keys(NOT_RUN)].map(file => `deploy/${file}`)]
  const files = globSync('deploy/**', { cwd: repository }).filter(path => statSync(join(repository, path)).isFile())
  const isNamed = (path: string) => named.some(each => path === each || path.startsWith(`${each}/`))
  assert.deepEqual(
    files.filter(path => !isNamed(path)),
    [],
  )
  for (const test of Object.values(ELSEWHERE)) assert.ok(existsSync(new URL(test, import.meta.url)), test)
})

function read(file: string): string {
  return readFileSync(join(repository, file), 'utf8')
}

function replaced(text: string, part: string, by: string): string {
  assert.ok(text.includes(part), part)
  return text.replace(part, by)
}

function timeOf(line: string): number {
  const { time }: { readonly time: string } = JSON.parse(line)
  return Date.parse(time)
}

/** The account that istiod has to trust, as the manifest says it. */
function accountIn(manifest: string): string {
  const [, added, listed = ''] =
    /livery-system\/([\w-]+)`? to `?CA_TRUSTED_NODE_ACCOUNTS|CA_TRUSTED_NODE_ACCOUNTS=\S*livery-system\/([\w-]+)/.exec(
      manifest,
    ) ?? []
  const account = added ?? listed
  assert.notEqual(account, '')
  return account
}

async function startIstiod(
  t: TestContext,
  namespace: string,
  account?: string,
): Promise<NonNullable<DeployedAgentOptions['peer']>> {
  const istiod = await Istiod.start({
    namespace: `${namespace}-istio`,
    host: ISTIOD.replace(/:\d+$/, ''),
    ...(account !== undefined && { trusted: `${namespace}/${account}` }),
  })
  t.after(() => istiod[Symbol.asyncDispose]())
  return { address: ISTIOD, port: istiod.port }
}

/** A signer of the cluster who approves everything, and the bundle with its roots, under the names of the manifest. */
async function startSigner(t: TestContext, manifest: string): Promise<void> {
  const [, signerName = ''] = /signerName: (\S+)/.exec(manifest) ?? []
  const [, name = ''] = /clusterTrustBundle: (\S+)/.exec(manifest) ?? []
  const clock = new SystemClock()
  t.after(() => clock[Symbol.dispose]())
  const authority = await CertificateAuthority.open({ clock, trustDomain: 'cluster.local', intermediate: true })
  const kube = new KubeAdmin()
  const bundles = '/apis/certificates.k8s.io/v1beta1/clustertrustbundles'
  await kube.call('POST', bundles, {
    metadata: { name },
    spec: { signerName, trustBundle: authority.trustBundle().join('') },
  })
  t.after(() => kube.call('DELETE', `${bundles}/${name}`))
  const signer = new KubeSigner({ kubeconfig: process.env['LIVERY_KUBE'] ?? '', authority, signerName })
  signer.run()
  t.after(() => signer[Symbol.asyncDispose]())
}
