/** Tokens of pods at a real API server, which LIVERY_KUBE names: asked for, reviewed, and worthless once the pod is gone. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { reviewedTokens } from '@livery/ca-plugins/istio-ca-server'
import { ApiConnection, PodLogin } from '@livery/ca-plugins/kubernetes-api'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { PodTokens } from '../src/kubernetes/pod-tokens.ts'
import { until } from './envoy-bench.ts'
import { KubeAdmin, noKube } from './kube-admin.ts'
import { NODE } from './pod-api-server.ts'
import { podTable } from './watched-pods.ts'

const AUDIENCE = 'istio-ca'

test('a token of a pod from a real API server is accepted by its review until the pod is gone', {
  skip: noKube,
}, async t => {
  const kube = new KubeAdmin()
  const name = `livery-${randomUUID().slice(0, 8)}`
  const namespace = `/api/v1/namespaces/${name}`
  await kube.call('POST', '/api/v1/namespaces', { metadata: { name } })
  t.after(() => kube.call('DELETE', namespace))
  for (const account of ['livery', 'web'])
    await kube.call('POST', `${namespace}/serviceaccounts`, { metadata: { name: account } })
  const rbac = '/apis/rbac.authorization.k8s.io/v1'
  const grant = async (role: string, rules: readonly object[]) => {
    await kube.call('POST', `${rbac}/clusterroles`, { metadata: { name: role }, rules })
    t.after(() => kube.call('DELETE', `${rbac}/clusterroles/${role}`))
    await kube.call('POST', `${rbac}/clusterrolebindings`, {
      metadata: { name: role },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
      subjects: [{ kind: 'ServiceAccount', name: 'livery', namespace: name }],
    })
    t.after(() => kube.call('DELETE', `${rbac}/clusterrolebindings/${role}`))
  }
  const pod = await kube.call('POST', `${namespace}/pods`, {
    metadata: { name: 'web', labels: { 'livery.dev/inject': 'true' } },
    spec: {
      nodeName: NODE,
      serviceAccountName: 'web',
      automountServiceAccountToken: false,
      containers: [{ name: 'c', image: 'i' }],
    },
  })

  const directory = temporaryFolder(t)
  await kube.mountAccount(directory, name, 'livery')
  Object.assign(process.env, kube.environment)
  const clock = new FakeClock(Date.now())
  const login = new PodLogin('', directory)
  const connection = new ApiConnection(login, clock)
  t.after(() => connection[Symbol.asyncDispose]())
  const { pods } = podTable()
  pods.put(pod)
  const tokens = new PodTokens(clock, { warn: message => assert.fail(message) })
  const following = tokens.follow({ pods, connection })
  t.after(() => following[Symbol.dispose]())
  const identity = `spiffe://cluster.local/ns/${name}/sa/web` as const
  const get = () => tokens.get({ identity, audience: AUDIENCE, expirationSeconds: 600, signal: t.signal })

  await assert.rejects(get(), /HTTP 403: .*Grant the verb create on serviceaccounts\/token/)
  await grant(name, [{ apiGroups: [''], resources: ['serviceaccounts/token'], verbs: ['create'] }])
  const { token, expiresAt } = await untilGranted(get)
  assert.equal(expiresAt, clock.now() + 600_000)

  const options = { connection, clock, trustDomain: 'cluster.local' }
  const authenticator = reviewedTokens({ ...options, audience: AUDIENCE })
  await assert.rejects(authenticator.authenticate({ bearerToken: token }), /Grant the verb create on tokenreviews/)
  await grant(`${name}-review`, [
    { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
  ])
  const caller = await untilGranted(() => authenticator.authenticate({ bearerToken: token }))
  assert.deepEqual(caller, { identity })
  const other = reviewedTokens({ ...options, audience: 'another' })
  assert.equal(await other.authenticate({ bearerToken: token }), undefined)

  await kube.call('DELETE', `${namespace}/pods/web?gracePeriodSeconds=0`)
  // The API server holds its own review for some seconds; a new authenticator holds none.
  await until('the review refuses the token', async () => {
    const found = await reviewedTokens({ ...options, audience: AUDIENCE }).authenticate({ bearerToken: token })
    return found === undefined || undefined
  })
  clock.jump(10_000)
  tokens.refused(identity)
  await assert.rejects(get(), /HTTP 404/)
})

/** The authorizer of the API server learns of a grant some moments later. */
async function untilGranted<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      assert.match(String(error), /HTTP 403/)
    }
  }
}
