/** A namespace, two nodes without kubelets, and their pods at a real API server: bound as by the scheduler, reported and ended as by a kubelet. */
import { randomUUID } from 'node:crypto'
import type { KubeAdmin } from './kube-admin.ts'

interface KubePodInit {
  readonly name: string
  readonly account: string
  /** Default: the node that is called as the namespace. */
  readonly node?: string
  /** Default: as the agent chooses pods. */
  readonly labels?: Readonly<Record<string, string>>
}

const RBAC = '/apis/rbac.authorization.k8s.io/v1'

/** Disposing it deletes all of it. */
export class KubeNodes implements AsyncDisposable {
  readonly kube: KubeAdmin
  /** Of the namespace, and of the node whose agent is tested. */
  readonly name = `livery-${randomUUID().slice(0, 8)}`
  readonly otherNode = `${this.name}-2`
  readonly #namespace = `/api/v1/namespaces/${this.name}`
  readonly #made: string[] = []

  private constructor(kube: KubeAdmin) {
    this.kube = kube
  }

  static async make(kube: KubeAdmin): Promise<KubeNodes> {
    const nodes = new KubeNodes(kube)
    await nodes.#make('/api/v1/namespaces', nodes.name)
    for (const node of [nodes.name, nodes.otherNode]) await nodes.#make('/api/v1/nodes', node)
    return nodes
  }

  async addAccount(name: string): Promise<void> {
    await this.kube.call('POST', `${this.#namespace}/serviceaccounts`, { metadata: { name } })
  }

  /** Lets a service account do what `rules` of a ClusterRole say. */
  async allow(account: string, rules: readonly unknown[]): Promise<void> {
    await this.#make(`${RBAC}/clusterroles`, this.name, { rules })
    await this.#make(`${RBAC}/clusterrolebindings`, this.name, {
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: this.name },
      subjects: [{ kind: 'ServiceAccount', name: account, namespace: this.name }],
    })
  }

  /** Resolves with the UID of a pod that is bound to its node, and pending. */
  async createPod({ name, account, node = this.name, labels }: KubePodInit): Promise<string> {
    const { metadata } = await this.kube.call('POST', `${this.#namespace}/pods`, {
      metadata: { name, labels: labels ?? { 'livery.dev/inject': 'true' } },
      spec: {
        nodeName: node,
        serviceAccountName: account,
        automountServiceAccountToken: false,
        containers: [{ name: 'c', image: 'i' }],
      },
    })
    return Object(metadata).uid
  }

  async reportPod(name: string, phase: 'Running' | 'Failed'): Promise<void> {
    await this.kube.call('PATCH', `${this.#namespace}/pods/${name}/status`, { status: { phase } })
  }

  /** As `kubectl delete` does: the pod terminates until its kubelet has ended it. */
  async terminatePod(name: string): Promise<void> {
    await this.kube.call('DELETE', `${this.#namespace}/pods/${name}?gracePeriodSeconds=30`)
  }

  /** As kubelet does when the containers have ended. */
  async deletePod(name: string): Promise<void> {
    await this.kube.call('DELETE', `${this.#namespace}/pods/${name}?gracePeriodSeconds=0`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Without a kubelet a pod would terminate without end, and its namespace with it.
    await this.kube.call('DELETE', `${this.#namespace}/pods?gracePeriodSeconds=0`)
    for (const path of this.#made.reverse()) await this.kube.call('DELETE', path)
  }

  async #make(collection: string, name: string, rest: object = {}): Promise<void> {
    await this.kube.call('POST', collection, { metadata: { name }, ...rest })
    this.#made.push(`${collection}/${name}`)
  }
}
