/** Tokens of pods at a real API server, which LIVERY_KUBE names, in the requests of a real Envoy: whose they are, for whom, until when, and who gets none. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type TestContext, test } from 'node:test'
import { freePort, listening, portOf, temporaryFolder } from '@livery/test-support'
import { DeployedAgent } from './deployed-agent.ts'
import { deployed, Envoy, get, noEnvoy, until } from './envoy-bench.ts'
import { KubeAdmin, noKube } from './kube-admin.ts'
import { KubeNodes } from './kube-nodes.ts'
import { inGroup } from './launchers.ts'
import { StartedPod } from './pod-process.ts'
import { noSharedNode } from './shared-node.ts'

const AUDIENCE = 'api.example'
const MANIFEST = new URL('../../../deploy/kubernetes/trial.yaml', import.meta.url)
const PODS_SOCKET = 'path: /run/livery/pods/socket'

/** Answers with the header of a request. */
async function startEcho(t: TestContext): Promise<number> {
  const server = createServer(({ headers }, response) => void response.end(headers.authorization))
  await listening(server, 0)
  t.after(() => server.close())
  return portOf(server)
}

test('an Envoy sends the token of its own pod from a real API server, which takes it for that audience until the pod is gone; nobody else gets it', {
  skip: noKube || noEnvoy || noSharedNode,
}, async t => {
  const kube = new KubeAdmin()
  await using nodes = await KubeNodes.make(kube)
  const text = readFileSync(MANIFEST, 'utf8')
  const manifest = text.replace(PODS_SOCKET, `${PODS_SOCKET}\n      allow: ["token://${AUDIENCE}"]`)
  assert.notEqual(manifest, text)
  await using agent = await DeployedAgent.start({
    kube,
    node: nodes.name,
    namespace: `${nodes.name}-system`,
    manifest,
    rules: [{ apiGroups: [''], resources: ['serviceaccounts/token'], verbs: ['create'] }],
  })
  for (const account of ['web', 'other']) await nodes.addAccount(account)
  const uid = await nodes.createPod({ name: 'web', account: 'web' })
  const otherUid = await nodes.createPod({ name: 'other', account: 'other' })
  for (const account of ['web', 'other'])
    await agent.logged(`"event":"issued","resource":"spiffe://cluster.local/ns/${nodes.name}/sa/${account}"`)
  const [admin, outbound, upstream] = [await freePort(), await freePort(), await startEcho(t)]
  const ports = new Map([
    [9904, admin],
    [15001, outbound],
    [8080, upstream],
  ])
  const socket = agent.socket('socket')
  await using envoy = await Envoy.start(
    temporaryFolder(t),
    'token',
    await deployed('token', { socket, ports }),
    inGroup(agent.groupOf(uid)),
  )
  await envoy.live()
  const { body } = await get(outbound, '/')
  const token = body.replace('Bearer ', '')
  const review = async (audience: string) => {
    const spec = { token, audiences: [audience] }
    const { status } = await kube.call('POST', '/apis/authentication.k8s.io/v1/tokenreviews', { spec })
    return Object(status)
  }
  const { authenticated, user, audiences } = await review(AUDIENCE)
  assert.deepEqual([authenticated, audiences], [true, [AUDIENCE]])
  assert.equal(user.username, `system:serviceaccount:${nodes.name}:web`)
  assert.deepEqual(user.extra['authentication.kubernetes.io/pod-uid'], [uid])
  // A token for the API server itself would let its bearer in.
  assert.notEqual((await review('https://kubernetes.default.svc')).authenticated, true)

  await using other = await StartedPod.start(agent.groupOf(otherUid))
  for (const name of [`token://${AUDIENCE}~${uid}`, 'token://https://kubernetes.default.svc', 'token://*']) {
    const answer = await other.ask(socket, name)
    assert.ok('failure' in answer || Object.keys(answer.identities).length === 0, `${name}: ${JSON.stringify(answer)}`)
    await agent.logged(`"event":"refused","resource":"${name}"`)
  }

  await nodes.deletePod('web')
  await agent.logged('"event":"pod-removed"')
  // The API server holds what it knows of a token for some seconds.
  await until('it is refused', async () => (await review(AUDIENCE)).authenticated !== true || undefined)
  assert.doesNotMatch(agent.output + envoy.output, /eyJ/)
})
