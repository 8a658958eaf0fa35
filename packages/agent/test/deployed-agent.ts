/** The agent of a manifest in deploy: its objects at the real API server that LIVERY_KUBE names, its pod as kubelet starts it, in its control group and mounts and with its rights. */
import assert from 'node:assert/strict'
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort, TemporaryFolder } from '@livery/test-support'
import { parseAllDocuments } from 'yaml'
import { ControlGroups, groupPath } from './control-groups.ts'
import { get, until } from './envoy-bench.ts'
import type { KubeAdmin } from './kube-admin.ts'
import { asUser, inGroup, withFile, withFolder } from './launchers.ts'
import { LiveryProcess } from './livery-process.ts'

const NAMESPACE = 'livery-system'
const PROGRAM = '/usr/bin/livery'
const PATIENCE_MS = 30_000
const ACCOUNT_MOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

interface KubeObject {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly data?: Readonly<Record<string, string>>
  readonly rules?: readonly object[]
  readonly roleRef?: object
  readonly spec?: unknown
}

/** As the API server has it: with what its admission adds. */
interface AgentPod {
  readonly metadata: { readonly name: string; readonly uid: string }
  readonly spec: {
    readonly serviceAccountName: string
    readonly securityContext: { readonly runAsUser: number; readonly fsGroup: number }
    readonly containers: readonly [Container]
    readonly volumes: readonly Volume[]
  }
}

interface Container {
  readonly command: readonly string[]
  readonly securityContext: { readonly capabilities: { readonly add: readonly string[] } }
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
  readonly livenessProbe: { readonly httpGet: { readonly path: string } }
  readonly readinessProbe: { readonly httpGet: { readonly path: string } }
}

interface Volume {
  readonly name: string
  readonly configMap?: { readonly name: string }
  readonly hostPath?: { readonly path: string }
  readonly projected?: {
    readonly sources: readonly {
      readonly serviceAccountToken?: { readonly path: string; readonly audience?: string }
    }[]
  }
}

export interface DeployedAgentOptions {
  readonly kube: KubeAdmin
  /** Of the node, which is there. */
  readonly node: string
  /** In the place of livery-system: other tests share the cluster. Its cluster roles are called so, too. */
  readonly namespace: string
  /** The manifest as it stands. */
  readonly manifest: string
  /** The configuration in the place of that of the manifest, and rights beside its own. */
  readonly config?: string
  readonly rules?: readonly object[]
  /** A host and port of the configuration, and the port of this machine where the peer is. */
  readonly peer?: { readonly address: string; readonly port: number }
}

export class DeployedAgent implements AsyncDisposable {
  readonly #process: LiveryProcess
  /** What the pods of the node mount. */
  readonly #runFolder: string
  readonly #groups: ControlGroups
  readonly #stack: AsyncDisposableStack

  private constructor(process: LiveryProcess, runFolder: string, groups: ControlGroups, stack: AsyncDisposableStack) {
    this.#process = process
    this.#runFolder = runFolder
    this.#groups = groups
    this.#stack = stack
  }

  /** Resolves when it is live by the probe of its pod. */
  static async start(options: DeployedAgentOptions): Promise<DeployedAgent> {
    await using starting = new AsyncDisposableStack()
    const { path: folder } = starting.use(new TemporaryFolder())
    await chmod(folder, 0o755)
    const groups = starting.use(new ControlGroups())
    const objects = objectsOf(options)
    await apply(options, objects, starting)
    const daemonSet = find(objects, 'DaemonSet')
    const pod = await createPod(options, daemonSet, starting)
    const { spec } = pod
    const [container] = spec.containers
    const healthPort = await freePort()
    const file = join(folder, 'livery.yaml')
    const text = options.config ?? find(objects, 'ConfigMap').data?.['livery.yaml'] ?? ''
    await writeFile(file, moved(text, options, healthPort))
    const mounts = new MountedVolumes(options, pod, folder)
    const launcher = [
      ...inGroup(groups.make(groupPath(pod.metadata.uid))),
      ...(await mounts.lay()),
      ...asUser(
        spec.securityContext.runAsUser,
        ...container.securityContext.capabilities.add.map(name => name.toLowerCase()),
      ),
    ]
    const args = container.command.slice(container.command.indexOf(PROGRAM) + 1)
    const process = starting.use(
      new LiveryProcess([...args, '--admin', 'unix:/run/livery/admin.sock'], {
        cwd: '/',
        env: { ...options.kube.environment, NODE_NAME: options.node, LIVERY_CONFIG: file },
        launcher,
      }),
    )
    await process.line(/"msg":"livery .* serves/)
    for (const { httpGet } of [container.livenessProbe, container.readinessProbe])
      await until(`${httpGet.path} is well`, async () => {
        return (await get(healthPort, httpGet.path)).status === 200 || undefined
      })
    return new DeployedAgent(process, join(folder, 'run'), groups, starting.move())
  }

  /** A line of its log with this part. Rejects with what the agent says in its place: a peer that refuses it is asked without end. */
  async logged(part: string): Promise<string> {
    const look = async () => this.#process.stderr.split('\n').find(line => line.includes(part))
    return await until(part, look, PATIENCE_MS).catch(cause => {
      throw new Error(this.#process.stderr, { cause })
    })
  }

  /** All of its log so far. */
  get output(): string {
    return this.#process.stderr
  }

  /** The control group of a pod of the node, made on demand. */
  groupOf(uid: string): string {
    return this.#groups.make(groupPath(uid))
  }

  /** The socket that pods share, seen from outside of the agent's mounts. */
  socket(name: string): string {
    return join(this.#runFolder, 'pods', name)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }
}

function objectsOf({ manifest, namespace, rules = [] }: DeployedAgentOptions): readonly KubeObject[] {
  const documents = parseAllDocuments(manifest.replaceAll(NAMESPACE, namespace))
  return documents.map(document => {
    const object: KubeObject = document.toJS()
    if (!object.kind.startsWith('ClusterRole')) return object
    return {
      ...object,
      metadata: { ...object.metadata, name: namespace },
      ...(object.rules && { rules: [...object.rules, ...rules] }),
      ...(object.roleRef && { roleRef: { ...object.roleRef, name: namespace } }),
    }
  })
}

function find(objects: readonly KubeObject[], kind: string): KubeObject {
  const object = objects.find(each => each.kind === kind)
  assert.ok(object, `the manifest has no ${kind}`)
  return object
}

const RBAC = '/apis/rbac.authorization.k8s.io/v1'

function collectionOf(kind: string, namespace: string): string {
  switch (kind) {
    case 'Namespace':
      return '/api/v1/namespaces'
    case 'ServiceAccount':
    case 'ConfigMap':
      return `/api/v1/namespaces/${namespace}/${kind.toLowerCase()}s`
    case 'NetworkPolicy':
      return `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`
    case 'DaemonSet':
      return `/apis/apps/v1/namespaces/${namespace}/daemonsets`
    case 'ClusterRole':
    case 'ClusterRoleBinding':
      return `${RBAC}/${kind.toLowerCase()}s`
    default:
      throw new Error(`no manifest had a ${kind}`)
  }
}

/** Whatever is made is deleted with `stack`; what is in the namespace goes with it. */
async function apply(
  { kube, namespace }: DeployedAgentOptions,
  objects: readonly KubeObject[],
  stack: AsyncDisposableStack,
): Promise<void> {
  for (const object of objects) {
    const collection = collectionOf(object.kind, namespace)
    await kube.call('POST', `${collection}?fieldValidation=Strict`, object)
    if (object.kind !== 'Namespace' && !object.kind.startsWith('ClusterRole')) continue
    stack.defer(async () => {
      await kube.call('DELETE', `${collection}/${object.metadata.name}`)
    })
  }
}

/** As the controller of DaemonSets makes it, and the scheduler binds it. */
async function createPod(
  { kube, node, namespace }: DeployedAgentOptions,
  daemonSet: KubeObject,
  stack: AsyncDisposableStack,
): Promise<AgentPod> {
  const { metadata, spec } = Object(daemonSet.spec).template
  const pods = `/api/v1/namespaces/${namespace}/pods`
  const pod: unknown = await kube.call('POST', `${pods}?fieldValidation=Strict`, {
    metadata: { ...metadata, name: 'livery' },
    spec: { ...spec, nodeName: node },
  })
  stack.defer(async () => {
    await kube.call('DELETE', `${pods}/livery?gracePeriodSeconds=0`)
  })
  return Object(pod)
}

/** Other processes share the machine. The host of a peer keeps its name, which is that of its certificate. */
function moved(config: string, { peer }: DeployedAgentOptions, healthPort: number): string {
  const text = config.replace(/0\.0\.0\.0:\d+/, `127.0.0.1:${healthPort}`)
  if (!peer) return text
  assert.ok(text.includes(peer.address), `the configuration does not name ${peer.address}`)
  return text.replace(peer.address, `${hostOf(peer)}:${peer.port}`)
}

function hostOf({ address }: NonNullable<DeployedAgentOptions['peer']>): string {
  return address.slice(0, address.lastIndexOf(':'))
}

/** The volumes of the agent's pod, as kubelet fills them. */
class MountedVolumes {
  readonly #options: DeployedAgentOptions
  readonly #pod: AgentPod
  readonly #folder: string

  constructor(options: DeployedAgentOptions, pod: AgentPod, folder: string) {
    this.#options = options
    this.#pod = pod
    this.#folder = folder
  }

  /** Resolves with a launcher of the process that sees them. */
  async lay(): Promise<readonly string[]> {
    const { spec } = this.#pod
    const empty = await this.#make('empty')
    const launcher = [...withFolder(empty, '/run')]
    for (const { name, mountPath } of spec.containers[0].volumeMounts) {
      const volume = spec.volumes.find(each => each.name === name)
      assert.ok(volume, name)
      // The configuration is named by its path: nothing is mounted where this machine has something.
      if (!/^(\/var)?\/run\//.test(mountPath)) continue
      launcher.push(...withFolder(await this.#fill(volume, mountPath), mountPath))
    }
    const { peer } = this.#options
    const hosts = join(this.#folder, 'hosts')
    await writeFile(hosts, `127.0.0.1 localhost${peer ? ` ${hostOf(peer)}` : ''}\n`, { mode: 0o644 })
    return [...launcher, ...withFile(hosts, '/etc/hosts')]
  }

  async #fill(volume: Volume, mountPath: string): Promise<string> {
    // Only one is writable, and the pods of the node see it.
    if (volume.hostPath) return await this.#make('run')
    if (mountPath === ACCOUNT_MOUNT) return await this.#account()
    const folder = await this.#make(volume.name)
    if (volume.configMap) await this.#fillFromMap(volume.configMap.name, folder)
    for (const { serviceAccountToken: wish } of volume.projected?.sources ?? [])
      if (wish) await this.#writeToken(join(folder, wish.path), wish.audience)
    return folder
  }

  async #account(): Promise<string> {
    const { kube, namespace } = this.#options
    const { metadata, spec } = this.#pod
    const { name, uid } = metadata
    await kube.mountAccount(this.#folder, namespace, spec.serviceAccountName, { name, uid })
    return join(this.#folder, ACCOUNT_MOUNT)
  }

  /** As soon as it is there: kubelet, too, starts no container before. */
  async #fillFromMap(name: string, folder: string): Promise<void> {
    const { kube, namespace } = this.#options
    const { data } = await until(`there is a ConfigMap ${name}`, () =>
      kube.call('GET', `/api/v1/namespaces/${namespace}/configmaps/${name}`),
    )
    for (const [file, text] of Object.entries(Object(data)))
      await writeFile(join(folder, file), String(text), { mode: 0o644 })
  }

  async #writeToken(path: string, audience: string | undefined): Promise<void> {
    const { kube, namespace } = this.#options
    const { metadata, spec } = this.#pod
    const { name, uid } = metadata
    const wish = { namespace, account: spec.serviceAccountName, pod: { name, uid } }
    const token = await kube.token(audience === undefined ? wish : { ...wish, audience })
    await writeFile(path, token, { mode: 0o640 })
    await chown(path, 0, spec.securityContext.fsGroup)
  }

  async #make(name: string): Promise<string> {
    const folder = join(this.#folder, name)
    await mkdir(folder, { mode: 0o755 })
    return folder
  }
}
