/** The plugin's credentials at the API server: service accounts of pods, kubeconfigs of all kinds, and tokens of identities. */
import assert from 'node:assert/strict'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import type { CAClient } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { isCAError, replaceFile } from '../../../test/citadel-setup.ts'
import { type KubeCluster, standInCluster } from '../../../test/kube-clusters.ts'
import { kubernetesCsrConfig, openClient, TestTicket } from '../../../test/kube-setup.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { createKubernetesCsr } from './create-kubernetes-csr.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const ACCOUNT = 'var/run/secrets/kubernetes.io/serviceaccount'

type Cluster = Awaited<ReturnType<typeof standInCluster>>

/** The user that a request of `client` is made by, as the API server notes it. */
async function userOf(client: CAClient, { signer }: KubeCluster, tokenFile?: string): Promise<string | undefined> {
  const ticket = new TestTicket()
  const nobody = new AbortController()
  const request = await workloadRequest(WEB, { ...(tokenFile !== undefined && { tokenFile }) })
  const given = assert.rejects(client.issue({ ...request, ticket, signal: nobody.signal }), /nobody waits/)
  // An error ends the wait for the name as well.
  const name = await Promise.race([ticket.name(), given.then(() => '')])
  nobody.abort(new Error('nobody waits'))
  await given
  return (await signer.read(name)).spec.username
}

/** As kubelet would mount it, and the variables that go with it. */
async function inPod(t: TestContext, { server, authority }: Cluster, token: string) {
  const podRoot = temporaryFolder(t)
  await mkdir(join(podRoot, ACCOUNT), { recursive: true })
  await writeFile(join(podRoot, ACCOUNT, 'ca.crt'), authority.trustBundle().join(''))
  await writeFile(join(podRoot, ACCOUNT, 'token'), `${token}\n`, { mode: 0o600 })
  const variables = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(server.port) }
  const before = { ...process.env }
  Object.assign(process.env, variables)
  t.after(() => {
    for (const name of Object.keys(variables)) {
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
    }
  })
  return { podRoot: `${podRoot}/`, tokenFile: join(podRoot, ACCOUNT, 'token') }
}

async function openInPod(t: TestContext, podRoot: string) {
  const client = await createKubernetesCsr(pluginContext(), kubernetesCsrConfig({}), { podRoot })
  t.after(() => client[Symbol.asyncDispose]())
  return client
}

/** A kubeconfig as an operator keeps it, beside other clusters; `user` belongs to its context `right`. */
async function writeKubeconfig(t: TestContext, { server, authority }: Cluster, user: object): Promise<string> {
  const folder = temporaryFolder(t)
  await writeFile(join(folder, 'ca.pem'), authority.trustBundle().join(''))
  const config = {
    clusters: [
      { name: 'here', cluster: { server: `https://localhost:${server.port}`, 'certificate-authority': 'ca.pem' } },
      { name: 'elsewhere', cluster: { server: 'https://127.0.0.1:1' } },
    ],
    users: [{ name: 'somebody', user }],
    contexts: [
      { name: 'right', context: { cluster: 'here', user: 'somebody' } },
      { name: 'wrong', context: { cluster: 'elsewhere', user: 'somebody' } },
      { name: 'torn', context: { cluster: 'nowhere', user: 'somebody' } },
    ],
    'current-context': 'wrong',
  }
  const file = join(folder, 'config')
  await writeFile(file, JSON.stringify(config), { mode: 0o600 })
  return file
}

test("in a pod it is the pod's service account, whose token is read at each call", async t => {
  const cluster = await standInCluster(t)
  cluster.server.fault = () => undefined
  const { podRoot, tokenFile } = await inPod(t, cluster, 'first-token')
  const client = await openInPod(t, podRoot)
  assert.equal(await userOf(client, cluster), 'first-token')
  await replaceFile(tokenFile, 'second-token\n')
  assert.equal(await userOf(client, cluster), 'second-token')
  await replaceFile(tokenFile, '')
  await assert.rejects(userOf(client, cluster), /it is empty/)
})

test('in a pod the client library is not loaded, for requests and for the trust bundle', async t => {
  const cluster = await standInCluster(t)
  cluster.server.fault = () => undefined
  const { podRoot } = await inPod(t, cluster, 'first-token')
  const loadLibrary = () => Promise.reject(new Error('it was loaded'))
  const config = kubernetesCsrConfig({ clusterTrustBundle: await cluster.trustBundle(t) })
  const client = await createKubernetesCsr(pluginContext(), config, { podRoot, loadLibrary })
  t.after(() => client[Symbol.asyncDispose]())
  const ticket = new TestTicket()
  const issuing = client.issue({ ...(await workloadRequest(WEB)), ticket })
  const name = await ticket.name()
  await cluster.signer.approve(name)
  await cluster.signer.sign(name)
  assert.equal((await issuing).chain.length, 2)
  assert.deepEqual(await client.trustBundle?.({ signal: t.signal }), cluster.authority.trustBundle())
})

test('a token that expires while a request waits is read again for the next watch', async t => {
  const cluster = await standInCluster(t)
  const usual = cluster.server.fault
  let valid = 'first-token'
  cluster.server.fault = call => {
    if (call.token === 'admin') return usual(call)
    return call.token === valid ? undefined : { kind: 'status', code: 401, message: 'Unauthorized' }
  }
  const { podRoot, tokenFile } = await inPod(t, cluster, 'first-token')
  const context = pluginContext()
  const client = await createKubernetesCsr(context, kubernetesCsrConfig({}), { podRoot })
  t.after(() => client[Symbol.asyncDispose]())
  const ticket = new TestTicket()
  const request = await workloadRequest(WEB)
  const issuing = client.issue({ ...request, ticket })
  const name = await ticket.name()
  await cluster.server.called(({ verb }) => verb === 'watch')
  valid = 'second-token'
  await replaceFile(tokenFile, 'second-token')
  cluster.server.endWatches()
  const { clock } = context
  assert.ok('advance' in clock && typeof clock.advance === 'function')
  while (!cluster.server.calls.some(({ token }) => token === 'second-token')) await clock.advance(500)
  await cluster.signer.approve(name)
  await cluster.signer.sign(name)
  assert.equal((await issuing).chain.length, 2)
})

test('outside of a pod and without a kubeconfig it is not made, and says why', async t => {
  const { KUBERNETES_SERVICE_HOST: before } = process.env
  delete process.env['KUBERNETES_SERVICE_HOST']
  t.after(() => {
    if (before !== undefined) process.env['KUBERNETES_SERVICE_HOST'] = before
  })
  await assert.rejects(createKubernetesCsr(pluginContext(), kubernetesCsrConfig({})), {
    name: 'TypeError',
    message: /KUBERNETES_SERVICE_HOST is not set.*Set kubeconfig/,
  })
})

test('the context of the configuration goes before the current one; files are beside the kubeconfig', async t => {
  const cluster = await standInCluster(t)
  cluster.server.fault = () => undefined
  const kubeconfig = await writeKubeconfig(t, cluster, { token: 'somebody' })
  const { client } = await openClient(t, { kubeconfig, context: 'right' })
  assert.equal(await userOf(client, cluster), 'somebody')
})

test('a client certificate is shown, and the new one once its files have changed', async t => {
  const cluster = await standInCluster(t)
  cluster.server.fault = () => undefined
  const kubeconfig = await writeKubeconfig(t, cluster, { 'client-certificate': 'cert.pem', 'client-key': 'key.pem' })
  const { client } = await openClient(t, { kubeconfig, context: 'right' })
  for (const user of ['first', 'second']) {
    const { chain, privateKey } = await cluster.authority.issueServerCertificate(
      { dnsNames: [user], ipAddresses: [] },
      60,
    )
    await replaceFile(join(kubeconfig, '..', 'key.pem'), privateKey)
    await replaceFile(join(kubeconfig, '..', 'cert.pem'), chain)
    assert.equal(await userOf(client, cluster), `DNS:${user}`)
  }
})

test('a program of the kubeconfig supplies the token, and runs again after a 401', async t => {
  const cluster = await standInCluster(t)
  const usual = cluster.server.fault
  const folder = temporaryFolder(t)
  const credential = (token: string) => JSON.stringify({ kind: 'ExecCredential', status: { token } })
  await writeFile(join(folder, 'credential'), credential('old-token'))
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'cat', args: [join(folder, 'credential')] }
  const kubeconfig = await writeKubeconfig(t, cluster, { exec })
  cluster.server.fault = call => (call.token === 'new-token' ? undefined : usual(call))
  const { client } = await openClient(t, { kubeconfig, context: 'right' })
  await writeFile(join(folder, 'credential'), credential('old-token'))
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unauthenticated'))
  await writeFile(join(folder, 'credential'), credential('new-token'))
  assert.equal(await userOf(client, cluster), 'new-token')
})

test('a program that fails is unauthenticated, with what it says', async t => {
  const cluster = await standInCluster(t)
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'cat', args: ['/no/such/file'] }
  const kubeconfig = await writeKubeconfig(t, cluster, { exec })
  const { client } = await openClient(t, { kubeconfig, context: 'right' })
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('unauthenticated', /Cannot log in at https:.*No such file.*Correct the user of the kubeconfig/),
  )
})

test('a program that printed unusable output runs again', async t => {
  const cluster = await standInCluster(t)
  const file = join(temporaryFolder(t), 'credential')
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'cat', args: [file] }
  const { client } = await openClient(t, { kubeconfig: await writeKubeconfig(t, cluster, { exec }), context: 'right' })
  await writeFile(file, '{"kind":"ExecCredential"}')
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unauthenticated'))
  await writeFile(file, '{"kind":"ExecCredential","status":{"token":"good-token"}}')
  const usual = cluster.server.fault
  cluster.server.fault = call => (call.token === 'good-token' ? undefined : usual(call))
  assert.equal(await userOf(client, cluster), 'good-token')
})

for (const output of ['my-secret-token', '"my-secret-token"', '{"my-secret-token":1}', '{"token": my-secret-token}'])
  test(`a program that prints ${output} is unauthenticated, and what it printed is in no message`, async t => {
    const cluster = await standInCluster(t)
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'echo', args: [output] }
    const kubeconfig = await writeKubeconfig(t, cluster, { exec })
    const { client } = await openClient(t, { kubeconfig, context: 'right' })
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: unknown) => {
      assert.ok(error instanceof Error)
      assert.doesNotMatch(inspect(error), /secret/)
      return isCAError(
        'unauthenticated',
        /its program printed no ExecCredential with a status\. Correct the user/,
      )(error)
    })
  })

test("an identity's own token is used for its requests, without the certificate of the kubeconfig", async t => {
  const cluster = await standInCluster(t)
  cluster.server.fault = () => undefined
  const { chain, privateKey } = await cluster.authority.issueServerCertificate(
    { dnsNames: ['node'], ipAddresses: [] },
    60,
  )
  const kubeconfig = await writeKubeconfig(t, cluster, { 'client-certificate': 'cert.pem', 'client-key': 'key.pem' })
  await writeFile(join(kubeconfig, '..', 'key.pem'), privateKey, { mode: 0o600 })
  await writeFile(join(kubeconfig, '..', 'cert.pem'), chain)
  const { client } = await openClient(
    t,
    { kubeconfig, context: 'right' },
    {
      credentials: {
        description: 'the tokens of the test',
        isConfigured: ({ tokenFile }) => tokenFile !== undefined,
        get: async ({ tokenFile = '' }) => ({ token: (await readFile(tokenFile, 'utf8')).trim() }),
      },
    },
  )
  const tokenFile = join(kubeconfig, '..', 'web.token')
  await writeFile(tokenFile, 'system:serviceaccount:default:web\n', { mode: 0o600 })
  assert.equal(await userOf(client, cluster, tokenFile), 'system:serviceaccount:default:web')
  assert.equal(await userOf(client, cluster), 'DNS:node')
})

test('a kubeconfig that cannot be used is unavailable, says why, and is read again', async t => {
  const cluster = await standInCluster(t)
  const good = await readFile(cluster.kubeconfig, 'utf8')
  const kubeconfig = join(temporaryFolder(t), 'config')
  const { client } = await openClient(t, { kubeconfig })
  const refused = async (reason: RegExp) =>
    assert.rejects(
      client.issue(await workloadRequest(WEB)),
      isCAError('unavailable', new RegExp(`^Cannot use the kubeconfig .*config: ${reason.source}.*Correct it`)),
    )
  await refused(/ENOENT/)
  for (const [text, reason] of [
    ['{ no: yaml', /\S+/],
    ['[]', /it has no current context/],
    ['null', /\S+/],
    [good.replace('"current-context":"x"', '"current-context":"y"'), /it has no context y, only x/],
    [good.replace('"cluster":"c"', '"cluster":"d"'), /its context x names no cluster of it/],
    [good.replace('"user":"u"', '"user":"v"'), /its context x names no user of it/],
    [good.replace('https://', 'https://user:hunter2@'), /the server of its context x has an "@"(?!.*hunter)/],
  ] as const) {
    await replaceFile(kubeconfig, text)
    await refused(reason)
  }
  await replaceFile(kubeconfig, good)
  assert.equal(await userOf(client, cluster), 'admin')
})

test('no message holds the token of the kubeconfig or of its program, though the server sends it back', async t => {
  const cluster = await standInCluster(t)
  cluster.server.fault = ({ token }) => ({ kind: 'status', code: 403, message: `${token} may not do that` })
  const status = JSON.stringify({ kind: 'ExecCredential', status: { token: 'a-secret-of-the-program' } })
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'echo', args: [status] }
  for (const user of [{ token: 'a-secret-of-the-file' }, { exec }]) {
    const kubeconfig = await writeKubeconfig(t, cluster, user)
    const { client } = await openClient(t, { kubeconfig, context: 'right' })
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: Error) => {
      assert.doesNotMatch(inspect(error, { depth: 10, showHidden: true }), /a-secret/)
      return isCAError('denied', /: \[secret\] may not do that\./)(error)
    })
  }
})
