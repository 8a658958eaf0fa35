/** Options that the plugin refuses before any request, and roots from a file. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { CAError } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { isCAError, replaceFile } from '../../../test/citadel-setup.ts'
import { standInCluster } from '../../../test/kube-clusters.ts'
import { kubernetesCsrConfig, openClient } from '../../../test/kube-setup.ts'
import { pluginContext, warningsOf } from '../../testing/plugin-context.ts'
import { checkConfig, type KubernetesCsrConfig, kubernetesCsrOptions } from './config.ts'
import { createKubernetesCsr } from './create-kubernetes-csr.ts'

const never = new AbortController().signal

const refusals: readonly (readonly [string, Partial<KubernetesCsrConfig>, RegExp])[] = [
  ['no roots at all', { kubeconfig: 'k' }, /come without their root\. Set signerRoots .* or clusterTrustBundle/],
  [
    'both',
    { signerRoots: 'a.pem', clusterTrustBundle: 'b' },
    /signerRoots "a\.pem": clusterTrustBundle is set as well\. Leave one/,
  ],
  [
    'a context of nothing',
    { signerRoots: 'a.pem', context: 'x' },
    /context "x": kubeconfig is missing\. Set kubeconfig/,
  ],
  ['no usage', { signerRoots: 'a.pem', kubeconfig: 'k', usages: [] }, /usages \[\]: .*Leave usages out/],
]
for (const [what, config, message] of refusals)
  test(`a configuration with ${what} is refused by name and remedy`, () => {
    const { signerRoots: _, ...rest } = kubernetesCsrConfig({})
    assert.throws(() => checkConfig({ ...rest, ...config }), { name: 'TypeError', message })
  })

test('names are checked by their form', () => {
  const { signerName, clusterTrustBundle } = kubernetesCsrOptions
  for (const good of [
    'example.com/workloads',
    'clusterissuers.cert-manager.io/my-issuer',
    'issuers.cert-manager.io/ns.name',
  ])
    assert.equal(signerName.problem(good), undefined, good)
  for (const bad of ['', 'example.com', 'a/b/c', 'Example.com/x', '/x', 'x/', 'kubernetes.io/legacy-unknown'])
    assert.match(signerName.problem(bad) ?? '', /\. (Write|Name) /, bad)
  for (const good of ['roots', 'example.com:workloads:roots']) assert.equal(clusterTrustBundle.problem(good), undefined)
  for (const bad of ['', 'a/b', 'A', '-a']) assert.match(clusterTrustBundle.problem(bad) ?? '', /Write one like/, bad)
})

test('a client library that is not installed is named with the command that installs it', async () => {
  const missing = Object.assign(new Error("Cannot find package '@kubernetes/client-node' imported from here"), {
    code: 'ERR_MODULE_NOT_FOUND',
  })
  const config = kubernetesCsrConfig({ kubeconfig: 'k' })
  await assert.rejects(createKubernetesCsr(pluginContext(), config, { loadLibrary: () => Promise.reject(missing) }), {
    message: /@kubernetes\/client-node is not installed\. .*npm install @kubernetes\/client-node/,
  })
  const broken = new Error('another error')
  await assert.rejects(
    createKubernetesCsr(pluginContext(), config, { loadLibrary: () => Promise.reject(broken) }),
    broken,
  )
})

test('roots of a file are listed each once, read again when they change, and kept while they cannot be read', async t => {
  const { kubeconfig, authority } = await standInCluster(t)
  const signerRoots = join(temporaryFolder(t), 'roots.pem')
  const { client, context } = await openClient(t, { kubeconfig, signerRoots })
  const roots = () => Promise.resolve(client.trustBundle?.({ signal: never }))
  await assert.rejects(roots(), isCAError('unavailable', /roots\.pem/))
  const [first = ''] = authority.trustBundle()
  await writeFile(signerRoots, first + first)
  assert.deepEqual(await roots(), [first])
  await authority.addRoot()
  await replaceFile(signerRoots, authority.trustBundle().join(''))
  assert.deepEqual(await roots(), authority.trustBundle())
  await replaceFile(signerRoots, 'no PEM')
  assert.deepEqual(await roots(), authority.trustBundle())
  assert.match(warningsOf(context).join(), /roots\.pem.*The old one is used meanwhile/)
})

test('a ClusterTrustBundle without a certificate is a bad-response', async t => {
  const cluster = await standInCluster(t)
  for (const [name, trustBundle] of [
    ['empty', ''],
    ['torn', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'],
  ] as const) {
    cluster.server.objects.create('clustertrustbundles', { metadata: { name }, spec: { trustBundle } }, 'admin')
    const { client } = await openClient(t, { kubeconfig: cluster.kubeconfig, clusterTrustBundle: name })
    await assert.rejects(
      Promise.resolve(client.trustBundle?.({ signal: never })),
      (error: unknown) =>
        error instanceof CAError && isCAError('bad-response', /Put the roots of the signer there/)(error),
    )
  }
})

for (const [versions, asked] of [
  [['v1'], ['v1']],
  [['v1', 'v1beta1'], ['v1']],
  [['v1beta1'], ['v1', 'v1beta1']],
] as const)
  test(`a ClusterTrustBundle is read where the API server serves it as ${versions.join(' and ')}`, async t => {
    const { server, kubeconfig, authority, trustBundle } = await standInCluster(t)
    server.trustBundleVersions = versions
    const { client } = await openClient(t, { kubeconfig, clusterTrustBundle: await trustBundle(t) })
    assert.deepEqual(await client.trustBundle?.({ signal: never }), authority.trustBundle())
    assert.deepEqual(
      server.calls.map(({ version }) => version),
      asked,
    )
  })

test('a ClusterTrustBundle that no version serves is unavailable, and the remedy names both versions', async t => {
  const { server, kubeconfig, trustBundle } = await standInCluster(t)
  server.trustBundleVersions = []
  const { client } = await openClient(t, { kubeconfig, clusterTrustBundle: await trustBundle(t) })
  await assert.rejects(
    Promise.resolve(client.trustBundle?.({ signal: never })),
    isCAError('unavailable', /HTTP 404: .*certificates\.k8s\.io\/v1 or v1beta1/),
  )
})
