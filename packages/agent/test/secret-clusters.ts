/** Where the Secrets of a gateway's test are: at a stand-in of the API server, or at the real one that LIVERY_KUBE names, with a role for some of them. */
import { once } from 'node:events'
import { connect as connectTcp, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { listening, portOf } from '@livery/test-support'
import { KubeAdmin } from './kube-admin.ts'
import { KubeNodes } from './kube-nodes.ts'
import { startOnNode } from './kubernetes-node.ts'
import { secretResource } from './pod-api-server.ts'

type Fields = Readonly<Record<string, string>>

interface SecretCluster {
  readonly namespace: string
  put(name: string, fields: Fields): Promise<void>
  delete(name: string): Promise<void>
}

export async function standIn(t: TestContext) {
  const node = await startOnNode(t)
  const namespace = 'edge'
  const cluster: SecretCluster = {
    namespace,
    put: async (name, fields) => node.server.put(secretResource(namespace, name, fields)),
    delete: async name => node.server.delete(secretResource(namespace, name, {})),
  }
  return { cluster, node }
}

/** The agent may read the Secrets that its role names, and no others. */
export async function real(t: TestContext) {
  const kube = new KubeAdmin()
  const nodes = await KubeNodes.make(kube)
  t.after(() => nodes[Symbol.asyncDispose]())
  const { name: namespace } = nodes
  await nodes.addAccount('livery')
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`
  const grant = async () => {
    await kube.call('POST', `${rbac}/roles`, {
      metadata: { name: 'secrets' },
      rules: [
        {
          apiGroups: [''],
          resources: ['secrets'],
          resourceNames: ['web', 'shop', 'shop-cacert'],
          verbs: ['get', 'list', 'watch'],
        },
      ],
    })
  }
  await grant()
  await kube.call('POST', `${rbac}/rolebindings`, {
    metadata: { name: 'secrets' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'secrets' },
    subjects: [{ kind: 'ServiceAccount', name: 'livery', namespace }],
  })
  const path = `/api/v1/namespaces/${namespace}/secrets`
  const made = new Set<string>()
  const cluster: SecretCluster = {
    namespace,
    async put(name, fields) {
      const { data } = secretResource(namespace, name, fields)
      const body = { metadata: { name }, data }
      await (made.has(name) ? kube.call('PATCH', `${path}/${name}`, body) : kube.call('POST', path, body))
      made.add(name)
    },
    async delete(name) {
      await kube.call('DELETE', `${path}/${name}`)
      made.delete(name)
    },
  }
  const way = await startWay(t, Number(kube.server.port))
  const node = await startOnNode(t, { environment: { ...kube.environment, KUBERNETES_SERVICE_PORT: way.port } })
  await kube.mountAccount(node.cwd, namespace, 'livery')
  const revoke = () => kube.call('DELETE', `${rbac}/roles/secrets`)
  return { cluster, node, way, role: { grant, revoke } }
}

/** Between the agent and the API server: it can be cut, as by an API server that stops. */
async function startWay(t: TestContext, target: number) {
  const sockets = new Set<Socket>()
  const server = createServer(near => {
    const far = connectTcp(target, '127.0.0.1')
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far).pipe(near)
  })
  await listening(server, 0)
  const port = portOf(server)
  const cut = async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    await closed
  }
  t.after(() => void (server.listening && cut()))
  return { port: String(port), cut, mend: () => listening(server, port) }
}
