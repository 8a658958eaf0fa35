/** The pods of a node in which an Envoy runs, in the control group and as the user of its pod, at the socket that they share. */
import assert from 'node:assert/strict'
import type { Envoy } from './envoy-bench.ts'
import { type MeshMember, type MeshTraffic, startMember } from './envoy-mesh.ts'
import { asUser, inGroup } from './launchers.ts'
import type { NodePod, PodNode } from './pod-node.ts'

/** Envoy's user in Istio's sidecar. */
const PROXY = 1_337

interface Member extends MeshMember {
  readonly account: string
  readonly delta: boolean
}

interface Running {
  readonly pod: NodePod
  readonly envoy: Envoy
}

export class EnvoyPods implements AsyncDisposable {
  readonly members: readonly Member[]
  readonly #node: PodNode
  readonly #running = new Map<MeshMember, Running>()

  /** An Envoy for each account; none runs yet. */
  constructor(node: PodNode, accounts: readonly string[]) {
    this.#node = node
    const { pid } = process
    this.members = accounts.map((account, index) => ({
      name: `envoy-${index}`,
      // Another run of this test has others.
      address: `127.${1 + (pid % 254)}.${(pid >> 8) % 256}.${index + 1}`,
      identity: node.identityOf(account),
      account,
      delta: index % 2 === 1,
    }))
  }

  /** The pods that run. */
  get pods(): readonly NodePod[] {
    return Array.from(this.#running.values(), ({ pod }) => pod)
  }

  async start(): Promise<void> {
    for (const member of this.members) await this.#start(member)
  }

  /**
   * Ends the pod as Kubernetes does: it gets no more requests, its process ends, then its object. Makes it again on the
   * other node, and then on this one. Resolves with the pod that ended.
   */
  async move(index: number, traffic: MeshTraffic): Promise<NodePod> {
    const { nodes } = this.#node
    const member = this.members[index]
    const running = member && this.#running.get(member)
    assert.ok(member && running)
    const { pod, envoy } = running
    const { name, account } = pod
    await nodes.terminatePod(name)
    await traffic.remove(member)
    this.#running.delete(member)
    await envoy[Symbol.asyncDispose]()
    await nodes.deletePod(name)
    await this.#node.gone(pod)
    await nodes.createPod({ name, account, node: nodes.otherNode })
    await nodes.deletePod(name)
    await this.#start(member)
    traffic.add(member)
    return pod
  }

  /** Asserts that each Envoy holds certificates of its own identity and no others. */
  async check(): Promise<void> {
    for (const [{ name, identity }, { envoy }] of this.#running) {
      const held = await envoy.certificates()
      assert.deepEqual([...new Set(held.map(({ uri }) => uri))], [identity], name)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { envoy } of this.#running.values()) await envoy[Symbol.asyncDispose]()
  }

  async #start(member: Member): Promise<void> {
    const node = this.#node
    const { name, account, delta } = member
    const pod = await node.createPod(name, account)
    const launcher = [...inGroup(node.groupOf(pod)), ...asUser(PROXY)]
    const peers = this.members.filter(peer => peer !== member)
    this.#running.set(member, {
      pod,
      envoy: await startMember(node.folder, member, peers, { socket: node.socket, delta, launcher }),
    })
  }
}
