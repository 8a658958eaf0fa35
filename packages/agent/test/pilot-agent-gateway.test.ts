/** An Istio gateway: istiod, pilot-agent and a real Envoy, with Livery at both sockets and its credentials in Secrets of a real API server (LIVERY_KUBE, LIVERY_PEERS). */
import assert from 'node:assert/strict'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FakeClock, type IssuedPair, PairIssuer } from '@livery/core/testing'
import { freePort } from '@livery/test-support'
import { until } from './envoy-bench.ts'
import { type IstioPod, makeFolders, startLivery } from './istio-pod.ts'
import { KubeAdmin } from './kube-admin.ts'
import { KubeNodes } from './kube-nodes.ts'
import { noMounts, withAccount } from './launchers.ts'
import { cannotRunPilotAgent, PilotAgent } from './pilot-agent.ts'
import { secretResource } from './pod-api-server.ts'
import { Istiod, noIstiod } from './real-istiod.ts'
import { serial, serialOf } from './shown-certificate.ts'

const GUIDE = new URL('../../../docs/start/gateways.md', import.meta.url)
const NAME = 'gateway-1'
const ACCOUNT = 'gateway'
const LABELS = { istio: 'ingressgateway' }
const HOST = 'shop.example'

test('an Istio gateway with credentialName sds://NAME shows the Secret, takes its roots, follows it, and is refused another', {
  skip: cannotRunPilotAgent || noIstiod || noMounts,
  timeout: 180_000,
}, async t => {
  const kube = new KubeAdmin()
  await using nodes = await KubeNodes.make(kube)
  const { name: namespace } = nodes
  const port = await freePort()
  await putGateway(
    nodes,
    new Map([
      [port, 'sds://shop'],
      [await freePort(), 'sds://hidden'],
    ]),
  )
  await using istiod = await Istiod.start({ namespace: `${namespace}-istio`, host: 'localhost' })
  const discoveryAddress = `localhost:${istiod.port}`
  const pod = await makeGatewayPod(t, nodes, discoveryAddress)
  const issuer = await PairIssuer.create(new FakeClock(Date.now()))
  const issue = () => issuer.issue('spiffe://cluster.local/ns/edge/sa/gateway')
  const [shop, rotated, { chain, key }] = [await issue(), await issue(), await issue()]
  const own = { cert: chain.join(''), key }
  const dataOf = (pair: IssuedPair) =>
    secretResource(namespace, 'shop', { cert: pair.chain.join(''), key: pair.key, cacert: issuer.root }).data
  const secrets = `/api/v1/namespaces/${namespace}/secrets`
  await kube.call('POST', secrets, { metadata: { name: 'shop' }, data: dataOf(shop) })

  const [, text = ''] = /```yaml\nprofile: istio\n([\s\S]*?)```/.exec(await readFile(GUIDE, 'utf8')) ?? []
  const config = text.replaceAll('/var/run', 'var/run').replaceAll('edge', namespace)
  await using agent = await startLivery(pod, 'livery', { config, launcher: withAccount(pod.cwd) })
  await using proxy = await PilotAgent.start(pod, 'livery', { role: 'router', discoveryAddress })
  const shows = (pair: IssuedPair) =>
    until('the listener shows the Secret', async () => (await serialOf(port, HOST, own)) === serial(pair) || undefined)
  await shows(shop).catch(cause => {
    throw new Error(proxy.output + agent.stderr, { cause })
  })
  await assert.rejects(serialOf(port, HOST), 'a client without a certificate')
  await agent.line(/"event":"refused".*sds:\/\/hidden/)
  await kube.call('PATCH', `${secrets}/shop`, { data: dataOf(rotated) })
  await shows(rotated)
  assert.doesNotMatch(agent.stderr, /is not seen at present/)
})

/** Istio's, as far as istiod reads it. It stays: other tests may use the API server. */
const GATEWAYS = {
  metadata: { name: 'gateways.networking.istio.io' },
  spec: {
    group: 'networking.istio.io',
    scope: 'Namespaced',
    names: { kind: 'Gateway', plural: 'gateways', singular: 'gateway' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
}

/** One with a server for each port and its `credentialName`. */
async function putGateway({ kube, name: namespace }: KubeNodes, credentials: ReadonlyMap<number, string>) {
  await kube.call('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', GATEWAYS).catch(error => {
    if (!String(error).includes('AlreadyExists')) throw error
  })
  const servers = Array.from(credentials, ([number, credentialName]) => ({
    port: { number, name: `https-${number}`, protocol: 'HTTPS' },
    hosts: [HOST],
    tls: { mode: 'MUTUAL', credentialName },
  }))
  const gateway = {
    apiVersion: 'networking.istio.io/v1',
    kind: 'Gateway',
    metadata: { name: 'gateway' },
    spec: { selector: LABELS, servers },
  }
  const path = `/apis/networking.istio.io/v1/namespaces/${namespace}/gateways`
  await until('the API server takes Gateways', () => kube.call('POST', path, gateway).catch(() => undefined))
}

/** The pod has the account, the tokens and the roots that kubelet and Istio's injector give it, and may read its Secrets. */
async function makeGatewayPod(t: TestContext, nodes: KubeNodes, istiod: string): Promise<IstioPod> {
  const { kube, name: namespace } = nodes
  const cwd = await makeFolders(t)
  const write = async (folder: string, file: string, text: string) => {
    await mkdir(join(cwd, 'var/run/secrets', folder))
    await writeFile(join(cwd, 'var/run/secrets', folder, file), text, { mode: 0o644 })
  }
  await nodes.addAccount(ACCOUNT)
  const resourceNames = ['shop', 'shop-cacert']
  await nodes.allow(ACCOUNT, [
    { apiGroups: [''], resources: ['secrets'], resourceNames, verbs: ['get', 'list', 'watch'] },
  ])
  const bound = { name: NAME, uid: await nodes.createPod({ name: NAME, account: ACCOUNT, labels: LABELS }) }
  await kube.mountAccount(cwd, namespace, ACCOUNT, bound)
  await write(
    'tokens',
    'istio-token',
    await kube.token({ namespace, account: ACCOUNT, audience: 'istio-ca', pod: bound }),
  )
  const path = `/api/v1/namespaces/${namespace}/configmaps/istio-ca-root-cert`
  const { data } = await until('istiod has written its root', () => kube.call('GET', path).catch(() => undefined))
  await write('istio', 'root-cert.pem', Object(data)['root-cert.pem'])
  return {
    cwd,
    env: {
      ...kube.environment,
      SERVICE_ACCOUNT: ACCOUNT,
      POD_NAMESPACE: namespace,
      POD_NAME: NAME,
      CA_ADDR: istiod,
      XDS_ROOT_CA: 'var/run/secrets/istio/root-cert.pem',
      ISTIO_METAJSON_LABELS: JSON.stringify(LABELS),
    },
  }
}
