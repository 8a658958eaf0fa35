/** The program with tokens of pods: `livery ca` signs for the service account of each token, as the API server reviews it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { served, startOnNode } from './kubernetes-node.ts'
import { noMounts as skip } from './launchers.ts'
import { podResource } from './pod-api-server.ts'

const AUDIENCE = 'istio-ca'

test('each pod gets its certificate by the token of its own service account, which the API server reviews for the CA', {
  skip,
}, async t => {
  const { server, launch, configure, start, socket } = await startOnNode(t)
  const review = ['--token-review', 'in-cluster', '--audience', AUDIENCE]
  const ca = launch('ca', '--listen', '127.0.0.1:0', ...review, '--dir', 'ca')
  const { address }: { readonly address: string } = JSON.parse(await ca.line(/"msg":"CA of cluster\.local on /))
  const credentials = { source: 'workload-token', audience: AUDIENCE }
  await configure({ ca: { plugin: 'citadel', address, rootCert: 'ca/root.pem', credentials } })
  const [web, api, forged] = ['web', 'api', 'forged'].map(name => podResource({ name, serviceAccount: name }))
  assert.ok(web && api && forged)
  for (const pod of [web, api]) server.put(pod)
  // An API server would not issue it, and does not accept it.
  server.fault = ({ verb, path }) =>
    verb === 'token' && path.endsWith('/forged/token')
      ? { body: JSON.stringify({ spec: { expirationSeconds: 3_600 }, status: { token: 'token-1.of-default.forged' } }) }
      : undefined
  const agent = start()
  for (const { metadata } of [web, api]) await served(socket, metadata.name)
  const count = (verb: string) => server.calls.filter(call => call.verb === verb).length
  assert.deepEqual([count('token'), count('review')], [2, 2])

  server.put(forged)
  await agent.line(/"event":"ca-error".*sa\/forged.*unauthenticated/)
  assert.deepEqual(
    [count('token'), count('review')].map(calls => calls > 2),
    [true, true],
  )

  // Made again, as by a StatefulSet: its token is bound to the pod that is there.
  server.delete(web)
  await agent.line(/"event":"pod-removed".*"pod":"default\/web"/)
  server.put(podResource({ name: 'web', serviceAccount: 'web' }))
  await served(socket, 'web')
  assert.doesNotMatch(agent.stderr + ca.stderr, /token-\d+\.of-default/)
})

test('an identity that failed for want of a pod has its certificate when the pod comes, whatever its backoff was', {
  skip,
}, async t => {
  const { server, launch, configure, start } = await startOnNode(t)
  const review = ['--token-review', 'in-cluster', '--audience', AUDIENCE]
  const ca = launch('ca', '--listen', '127.0.0.1:0', ...review, '--dir', 'ca')
  const { address }: { readonly address: string } = JSON.parse(await ca.line(/"msg":"CA of cluster\.local on /))
  const credentials = { source: 'workload-token', audience: AUDIENCE }
  await configure({
    ca: { plugin: 'citadel', address, rootCert: 'ca/root.pem', credentials },
    identities: ['spiffe://cluster.local/ns/default/sa/late'],
    retry: { min: '20m', max: '20m' },
  })
  const agent = start()
  await agent.line(/"event":"ca-error".*sa\/late.*unauthenticated/)
  server.put(podResource({ name: 'late', serviceAccount: 'late' }))
  // A stream that asks would hurry it, too.
  await agent.line(/"event":"issued".*sa\/late/)
})
