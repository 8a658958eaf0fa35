/** A node with pods at a real API server and in real control groups, and on it the agent as the DaemonSet of deploy/kubernetes runs it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { TemporaryFolder } from '@livery/test-support'
import { parseAllDocuments } from 'yaml'
import { ControlGroups, groupPath } from './control-groups.ts'
import { until } from './envoy-bench.ts'
import { KubeAdmin } from './kube-admin.ts'
import { KubeNodes } from './kube-nodes.ts'
import { asUser, inGroup, withAccount } from './launchers.ts'
import { LiveryProcess } from './livery-process.ts'

export interface NodePod {
  readonly name: string
  readonly account: string
  readonly uid: string
  readonly identity: string
}

interface RunningAgent {
  readonly process: LiveryProcess
  /** Of its pod. */
  readonly name: string
  readonly admin: string
}

const MANIFEST = new URL('../../../deploy/kubernetes/trial.yaml', import.meta.url)
const ACCOUNT = 'livery'
/** Of the manifest. */
const AGENT = 15_100
/** Of the other processes of this machine there can be many. */
const PATIENCE_MS = 60_000

export class PodNode implements AsyncDisposable {
  readonly folder: string
  readonly nodes: KubeNodes
  readonly groups: ControlGroups
  readonly #stack: AsyncDisposableStack
  readonly #agents: RunningAgent[] = []
  /** By agents that have ended. */
  #refused = 0

  private constructor(folder: string, nodes: KubeNodes, groups: ControlGroups, stack: AsyncDisposableStack) {
    this.folder = folder
    this.nodes = nodes
    this.groups = groups
    this.#stack = stack
  }

  /** Makes a node whose only pod is the agent's, which is ready. */
  static async start(): Promise<PodNode> {
    await using starting = new AsyncDisposableStack()
    const { path } = starting.use(new TemporaryFolder())
    await chmod(path, 0o755)
    const groups = starting.use(new ControlGroups())
    const nodes = starting.use(await KubeNodes.make(new KubeAdmin()))
    await nodes.addAccount(ACCOUNT)
    await nodes.allow(ACCOUNT, rulesOfManifest())
    const config = {
      ttl: '60s',
      ca: { plugin: 'embedded', directory: 'ca' },
      kubernetes: {},
      sockets: [{ path: 'sds.sock', mode: '0666', identify: 'kubernetes' }],
      store: { directory: 'store' },
      removal: { grace: '2s' },
      drain: '500ms',
      admin: { address: '127.0.0.1:0' },
    }
    await writeFile(join(path, 'livery.yaml'), JSON.stringify(config))
    const node = new PodNode(path, nodes, groups, starting.move())
    try {
      await node.#startAgent()
      return node
    } catch (error) {
      await node[Symbol.asyncDispose]()
      throw error
    }
  }

  /** The socket that all pods share. */
  get socket(): string {
    return join(this.folder, 'sds.sock')
  }

  get agentPid(): number {
    return this.#agent.process.child.pid ?? 0
  }

  /** What all agents have logged. */
  get log(): string {
    return this.#agents.map(({ process }) => process.stderr).join('')
  }

  async createPod(name: string, account: string): Promise<NodePod> {
    const uid = await this.nodes.createPod({ name, account })
    await this.nodes.reportPod(name, 'Running')
    return { name, account, uid, identity: this.identityOf(account) }
  }

  identityOf(account: string): string {
    return `spiffe://cluster.local/ns/${this.nodes.name}/sa/${account}`
  }

  groupOf({ uid }: NodePod): string {
    return this.groups.make(groupPath(uid))
  }

  /** Resolves when the agent that serves knows that a pod has ended. */
  async gone({ name, uid }: NodePod): Promise<void> {
    const removed = new RegExp(`"event":"pod-removed".*"podUid":"${uid}"`)
    const look = async () => removed.test(this.log) || undefined
    await until(`the agent knows that ${name} (${uid}) is gone`, look, PATIENCE_MS)
  }

  /** Another agent takes over from this one, which then ends as kubelet ends it. */
  async takeOver(): Promise<void> {
    const before = this.#agent
    await this.#startAgent('--takeover')
    await before.process.line(/another agent serves now: draining/)
    this.#refused += await strangersRefused(before)
    before.process.kill('SIGTERM')
    assert.deepEqual(await before.process.ended, { code: 0, signal: null })
    await this.nodes.deletePod(before.name)
  }

  /** How many connections were refused, since they were those of no pod. */
  async refused(): Promise<number> {
    return this.#refused + (await strangersRefused(this.#agent))
  }

  /** How many identities of pods have a certificate. */
  async available(): Promise<number> {
    return await readMetric(this.#agent, 'livery_identities{state="available"}')
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }

  get #agent(): RunningAgent {
    const agent = this.#agents.at(-1)
    if (!agent) throw new Error('no agent was started')
    return agent
  }

  async #startAgent(...flags: readonly string[]): Promise<void> {
    const { kube, name: namespace } = this.nodes
    const name = `agent-${this.#agents.length}`
    const uid = await this.nodes.createPod({ name, account: ACCOUNT, labels: {} })
    const account = join(this.folder, name)
    await kube.mountAccount(account, namespace, ACCOUNT, { name, uid })
    const process = this.#stack.use(
      new LiveryProcess(['--json', 'run', '--config', join(this.folder, 'livery.yaml'), ...flags], {
        cwd: this.folder,
        env: { ...kube.environment, NODE_NAME: namespace },
        launcher: [
          ...inGroup(this.groups.make(groupPath(uid))),
          ...withAccount(account),
          ...asUser(AGENT, 'chown', 'dac_override'),
        ],
      }),
    )
    const admin = await process.admin()
    const isReady = async () => (await fetch(`http://${admin}/healthz/ready`)).ok || undefined
    await until(`${name} is ready`, isReady, PATIENCE_MS)
    this.#agents.push({ process, name, admin })
  }
}

function rulesOfManifest(): readonly unknown[] {
  const objects = parseAllDocuments(readFileSync(MANIFEST, 'utf8')).map(document => document.toJS())
  const role = objects.find(({ kind }) => kind === 'ClusterRole')
  assert.ok(role)
  return role.rules
}

function strangersRefused(agent: RunningAgent): Promise<number> {
  return readMetric(agent, 'livery_sds_refused_connections_total{', 'reason="unidentified"')
}

/** The sum of the samples whose lines begin with `start` and contain `part`. */
async function readMetric({ admin }: RunningAgent, start: string, part = ''): Promise<number> {
  const text = await (await fetch(`http://${admin}/metrics`)).text()
  const lines = text.split('\n').filter(line => line.startsWith(start) && line.includes(part))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
}
