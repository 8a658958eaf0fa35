/**
 * The commands of docs/start/kubernetes.md at a real API server, which LIVERY_KUBE names. The test stands in for scheduler, controller
 * of DaemonSets and kubelet: it starts the agent's pod as the API server describes it, on the root file system of the image.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { freePort } from '@livery/test-support'
import { parse } from 'yaml'
import { ControlGroups, groupPath, noControlGroups } from './control-groups.ts'
import { ImageRoot, noImage, type Volume } from './image-root.ts'
import { StartedPod } from './pod-process.ts'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const KUBECONFIG = process.env['LIVERY_KUBE'] ?? ''
/** These need a container engine, a kubelet, or the controller of DaemonSets. */
const NOT_HERE = /^docker |rollout status| exec | logs /
/** A pod that is bound to a node ends when its kubelet says so: without one it has to be forced. */
const ENDS_POD = /^kubectl delete pod/
const FORCED = ' --grace-period=0 --force'
const NODE = 'node-of-the-guide'
const WEB = 'spiffe://cluster.local/ns/default/sa/web'

const tools = ['helm', 'kubectl'].filter(tool => spawnSync(tool, ['--help']).status !== 0)
const skip =
  noImage ||
  noControlGroups ||
  (tools.length > 0 && `no ${tools.join(' and ')} on PATH`) ||
  (KUBECONFIG === '' && 'LIVERY_KUBE names no kubeconfig of a cluster-admin at an API server for tests')

/** The commands of a section, one that reads from standard input whole. */
function commandsOf(heading: string): readonly string[] {
  const page = readFileSync(join(repository, 'docs/start/kubernetes.md'), 'utf8')
  const [, section = ''] =
    page
      .split(/^## /m)
      .map(part => part.split(`${heading}\n`))
      .find(([before]) => before === '') ?? []
  const blocks = [...section.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block)
  const commands = blocks.flatMap(block => block.match(/^.*<<'END'\n[\s\S]*?^END$|^.+$/gm) ?? [])
  assert.ok(commands.length > 0, heading)
  return commands
}

class Cluster {
  readonly #folder: string
  readonly #say: (text: string) => void

  /** `say` gets each command that is not run as it stands. */
  constructor(folder: string, say: (text: string) => void) {
    this.#folder = folder
    this.#say = say
    symlinkSync(join(repository, 'deploy'), join(folder, 'deploy'))
  }

  /** In the folder of the reader, with the cluster as the current one. */
  shell(command: string): string {
    const { status, stdout, stderr } = this.#run(command)
    assert.equal(status, 0, `${command}\n${stderr}`)
    return stdout
  }

  #run(command: string) {
    return spawnSync('sh', ['-c', command], {
      cwd: this.#folder,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], HOME: this.#folder, KUBECONFIG },
      timeout: 120_000,
    })
  }

  object(kind: string, name: string, namespace: string) {
    return JSON.parse(this.shell(`kubectl get ${kind} ${name} --namespace ${namespace} --output json`))
  }

  runSection(heading: string): void {
    for (const command of commandsOf(heading)) {
      if (NOT_HERE.test(command)) this.#say(`not run: ${command}`)
      else if (ENDS_POD.test(command)) {
        this.#say(`run with${FORCED}: ${command}`)
        this.shell(command + FORCED)
      } else this.shell(command)
    }
  }

  /** Removes what a run that failed has left. */
  clear(): void {
    for (const command of commandsOf('Take it away')) this.#run(ENDS_POD.test(command) ? command + FORCED : command)
  }

  /** As the scheduler does. */
  bind(pod: string, node: string): void {
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name: pod }, target: { kind: 'Node', name: node } }
    const file = join(this.#folder, 'binding.json')
    writeFileSync(file, JSON.stringify(binding))
    this.shell(`kubectl create --raw /api/v1/namespaces/default/pods/${pod}/binding --filename ${file}`)
  }

  get server(): URL {
    return new URL(parse(readFileSync(KUBECONFIG, 'utf8')).clusters[0].cluster.server)
  }

  /** As a pod gets it: token, root and namespace. */
  writeServiceAccount(folder: string, name: string, namespace: string): void {
    mkdirSync(folder)
    const cluster = parse(readFileSync(KUBECONFIG, 'utf8')).clusters[0].cluster
    const roots = cluster['certificate-authority']
      ? readFileSync(cluster['certificate-authority'])
      : Buffer.from(cluster['certificate-authority-data'], 'base64')
    writeFileSync(join(folder, 'ca.crt'), roots)
    writeFileSync(join(folder, 'token'), this.shell(`kubectl create token ${name} --namespace ${namespace}`).trim())
    writeFileSync(join(folder, 'namespace'), namespace)
  }
}

test('the page leads from helm install to the first certificate of a pod', { skip, timeout: 300_000 }, async t => {
  using image = new ImageRoot()
  await image.lay()
  const reader = join(image.folder, 'reader')
  mkdirSync(reader)
  const cluster = new Cluster(reader, text => t.diagnostic(text))
  cluster.clear()
  // Before the folder of the reader is removed.
  using _cleared = { [Symbol.dispose]: () => cluster.clear() }
  cluster.runSection('Install it')

  const daemonSet = cluster.object('daemonset', 'livery', 'livery-system')
  const { spec } = daemonSet.spec.template
  const [container] = spec.containers
  const healthPort = await freePort()
  const run = join(image.folder, 'run')
  mkdirSync(run)
  const folders: Readonly<Record<string, string>> = { config: join(image.folder, 'config'), run }
  mkdirSync(folders['config'] ?? '')
  const { data } = cluster.object('configmap', 'livery', 'livery-system')
  // Other runs share the machine.
  const config = data['livery.yaml'].replace('0.0.0.0:15121', `127.0.0.1:${healthPort}`)
  writeFileSync(join(folders['config'] ?? '', 'livery.yaml'), config)
  const account = join(image.folder, 'account')
  cluster.writeServiceAccount(account, spec.serviceAccountName, 'livery-system')
  const volumes: readonly Volume[] = [
    ...container.volumeMounts.map(
      (mount: { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }) => ({
        from: folders[mount.name],
        to: mount.mountPath,
        isWritable: mount.readOnly !== true,
      }),
    ),
    { from: account, to: '/var/run/secrets/kubernetes.io/serviceaccount' },
  ]
  const { hostname, port } = cluster.server
  const environment = { NODE_NAME: NODE, KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port }
  assert.equal(spec.hostPID, true)
  await using groups = new ControlGroups()
  await using agent = image.run({
    group: groups.make(groupPath(randomUUID())),
    command: [...container.command, '--admin', 'unix:/run/livery/admin.sock'],
    capabilities: container.securityContext.capabilities.add,
    volumes,
    environment,
  })
  await agent.line(/livery .* serves/)
  for (const { httpGet } of [container.livenessProbe, container.readinessProbe])
    assert.equal((await fetch(`http://127.0.0.1:${healthPort}${httpGet.path}`)).status, 200, httpGet.path)

  cluster.runSection('The first certificate')
  const pod = cluster.object('pod', 'web', 'default')
  cluster.bind('web', NODE)
  await agent.line(/"event":"issued","resource":"spiffe:\/\/cluster\.local\/ns\/default\/sa\/web"/)
  await using web = await StartedPod.start(groups.make(groupPath(pod.metadata.uid)))
  const answer = await web.ask(join(run, 'pods/socket'), 'default', 'ROOTCA')
  assert.deepEqual(answer, { identities: { default: WEB, ROOTCA: 'roots' } })
  const inside = commandsOf('The first certificate').flatMap(command => / -- (livery .*)$/.exec(command)?.[1] ?? [])
  assert.equal(inside.length, 2)
  for (const command of inside) {
    const words = [`/usr/bin/${command.split(' ')[0]}`, ...command.split(' ').slice(1)]
    const output = await image.outputOf({
      command: [...words, '--admin', 'unix:/run/livery/admin.sock'],
      volumes,
      environment,
    })
    assert.match(output, /ns\/default\/sa\/web/, output)
  }

  writeFileSync(
    join(reader, 'my-values.yaml'),
    readFileSync(join(repository, 'deploy/helm/livery/examples/istiod.yaml')),
  )
  cluster.runSection('Your own CA')
  assert.match(cluster.object('configmap', 'livery', 'livery-system').data['livery.yaml'], /plugin: citadel/)
  cluster.runSection('Take it away')
  assert.equal(
    cluster.shell(
      'kubectl get clusterrole,clusterrolebinding --selector app.kubernetes.io/instance=livery --output name',
    ),
    '',
  )
})
