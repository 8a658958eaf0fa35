/** The program on a node of Kubernetes: a process in a mount namespace where its service account is mounted, pods at a stand-in of the API server. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { identityOf, served, startOnNode } from './kubernetes-node.ts'
import { noMounts as skip } from './launchers.ts'
import { LiveryProcess } from './livery-process.ts'
import { podResource } from './pod-api-server.ts'
import { fetchSecrets } from './sds-client.ts'

test('the identity of a pod is served while the API server is away, too, and no longer than the pod lives', {
  skip,
}, async t => {
  const node = await startOnNode(t)
  const web = podResource({ name: 'web-0' })
  node.server.put(web)
  node.server.put(podResource({ name: 'other', labels: {} }))
  const agent = node.start()
  const admin = await agent.admin()
  await agent.line(/"event":"pods-known".*this node has 2 pods, 1 with an identity/)
  while ((await ready(admin)).status !== 200) await new Promise(setImmediate)
  await served(node.socket, 'web')

  await node.server.down()
  await agent.line(/"event":"pods-away"/)
  const { status, text } = await ready(admin)
  assert.deepEqual([status, /not counted:\n {2}Pods that come or go are not seen/.test(text)], [200, true])
  assert.match(await metrics(admin), /livery_pods_watch_state\{state="away"\} 1/)
  await served(node.socket, 'web')

  node.server.delete(web)
  await node.server.up()
  await agent.line(/"event":"pod-removed".*"pod":"default\/web-0"/)
  await agent.line(/"event":"withdrawn".*sa\/web/)
})

test('an agent that takes over serves the pods without a gap', { skip }, async t => {
  const accounts = Array.from({ length: 20 }, (_, index) => `web-${index}`)
  const node = await startOnNode(t, {
    config: { store: { directory: 'store' } },
    prepare(server) {
      for (const serviceAccount of accounts) server.put(podResource({ name: serviceAccount, serviceAccount }))
    },
  })
  const first = node.start()
  for (const account of accounts) await served(node.socket, account)

  const second = node.start('--takeover')
  // In a pod the first one stays, so that kubelet does not start it again.
  let isOver = false
  const drained = first.line(/another agent serves now: draining/).then(() => {
    isOver = true
  })
  let answers = 0
  const askAll = async () => {
    const secrets = await fetchSecrets(node.socket, accounts.map(identityOf))
    answers += secrets.filter(({ privateKey }) => privateKey !== '').length
  }
  while (!isOver) await askAll()
  await drained
  for (let round = 0; round < 10; round++) await askAll()
  t.diagnostic(`${answers} answers, none missing, while one took over from the other`)
  assert.equal(answers % accounts.length, 0)
  second.kill('SIGTERM')
  await second.ended
})

test('an agent that no list has reached is not ready, and says what it is refused and how to allow it', {
  skip,
}, async t => {
  const node = await startOnNode(t, {
    prepare(server) {
      server.fault = () => ({ status: 403, message: 'pods is forbidden' })
    },
  })
  const agent = node.start()
  const admin = await agent.admin()
  await agent.line(/"event":"pods-unknown".*Grant the verb list on pods to this user by a ClusterRole/)
  const { status, text } = await ready(admin)
  assert.deepEqual([status, /The pods of this node are not known: .*HTTP 403/.test(text)], [503, true])
})

test('outside of a pod the section is refused at the start', async t => {
  const directory = temporaryFolder(t)
  const file = join(directory, 'livery.yaml')
  const config = { ca: { plugin: 'embedded' }, admin: { address: '127.0.0.1:0' }, sockets: [{ path: 'sds.sock' }] }
  await writeFile(file, JSON.stringify({ ...config, kubernetes: { nodeName: 'n' } }))
  const agent = new LiveryProcess(['run', '--config', file], { cwd: directory })
  t.after(() => agent[Symbol.asyncDispose]())
  const { code } = await agent.ended
  assert.notEqual(code, 0)
  assert.match(agent.stderr, /KUBERNETES_SERVICE_HOST is not set.*Remove the section kubernetes, or run it in a pod/)
})

async function ready(admin: string): Promise<{ readonly status: number; readonly text: string }> {
  const answer = await fetch(`http://${admin}/healthz/ready`)
  return { status: answer.status, text: await answer.text() }
}

async function metrics(admin: string): Promise<string> {
  return await (await fetch(`http://${admin}/metrics`)).text()
}
