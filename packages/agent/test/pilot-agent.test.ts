/** Istio's own pilot-agent, unchanged, in a pod with Livery's socket and in one without; it starts a real Envoy. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort } from '@livery/test-support'
import { ENVOY, get, noEnvoy, until } from './envoy-bench.ts'
import { CREDENTIALS, FOLDER, type IstioPod, makePod, notRoot, PROXY } from './istio-pod.ts'
import { LiveryProcess, livery } from './livery-process.ts'

const PEERS = process.env['LIVERY_PEERS']
const PROGRAM = join(PEERS ?? '', 'pilot-agent')
/** Istio's own, as its image has it. */
const TEMPLATE = join(PEERS ?? '', 'envoy_bootstrap_tmpl.json')
const skip = notRoot || noEnvoy || noPilotAgent()

function noPilotAgent(): string | false {
  if (!PEERS) return 'LIVERY_PEERS is not set: benchmarks/peers/build.sh builds pilot-agent'
  const absent = [PROGRAM, TEMPLATE].find(path => !existsSync(path))
  return absent ? `there is no ${absent}: benchmarks/peers/build.sh builds it` : false
}

/** `pilot-agent proxy sidecar` and the Envoy that it starts; killed when disposed. */
class PilotAgent implements AsyncDisposable {
  readonly envoyAdmin: number
  readonly ended: Promise<number | null>
  output = ''
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, envoyAdmin: number) {
    this.#child = child
    this.envoyAdmin = envoyAdmin
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.output += text
      })
    this.ended = once(child, 'close').then(([code]) => code)
  }

  static async start({ cwd, env }: IstioPod, socketFile: string): Promise<PilotAgent> {
    const envoyAdmin = await freePort()
    const child = spawn(PROGRAM, ['proxy', 'sidecar', '--log_output_level=default:debug'], {
      cwd,
      uid: PROXY,
      gid: PROXY,
      // A process group, so that its Envoy ends with it.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...env, ...(await surroundings(cwd, envoyAdmin)), WORKLOAD_IDENTITY_SOCKET_FILE: socketFile },
    })
    return new PilotAgent(child, envoyAdmin)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode, pid } = this.#child
    if (exitCode === null && pid) process.kill(-pid, 'SIGKILL')
    await this.ended
  }
}

/** Its environment beside that of the pod; makes the folders and files that it needs. */
async function surroundings(cwd: string, envoyAdmin: number): Promise<Readonly<Record<string, string>>> {
  await mkdir(join(cwd, 'etc/istio/proxy'), { recursive: true })
  await chmod(join(cwd, 'etc/istio/proxy'), 0o777)
  // Envoy asks for its secrets after istiod's first answer, which does not come here: it stops waiting for that.
  const noAnswer = { initial_fetch_timeout: '0.1s' }
  const override = { dynamic_resources: { cds_config: noAnswer, lds_config: noAnswer } }
  await writeFile(join(cwd, 'override.json'), JSON.stringify(override), { mode: 0o644 })
  const proxyConfig = {
    discoveryAddress: `127.0.0.1:${await freePort()}`,
    proxyAdminPort: envoyAdmin,
    statusPort: await freePort(),
    binaryPath: ENVOY,
    proxyBootstrapTemplatePath: TEMPLATE,
    concurrency: 1,
  }
  return {
    POD_NAME: 'web-1',
    INSTANCE_IP: '127.0.0.1',
    // It asks the metadata servers of clouds otherwise.
    CLOUD_PLATFORM: 'none',
    XDS_ROOT_CA: 'root.pem',
    PROXY_CONFIG: JSON.stringify(proxyConfig),
    ISTIO_BOOTSTRAP_OVERRIDE: 'override.json',
    ENVOY_STATUS_PORT: `${await freePort()}`,
    ENVOY_PROMETHEUS_PORT: `${await freePort()}`,
    // The bootstrap has a listener with `default` and `ROOTCA` there.
    ENVOY_SECURE_METRICS_PORT: `${await freePort()}`,
  }
}

/** `livery run` by the profile, serving `default` at `name` in the folder. `config`: lines after the profile. */
async function startLivery(pod: IstioPod, name: string, config = ''): Promise<LiveryProcess> {
  await writeFile(join(pod.cwd, 'livery.yaml'), `profile: istio\n${config}`, { mode: 0o644 })
  const env = { ...pod.env, WORKLOAD_IDENTITY_SOCKET_FILE: name }
  const agent = new LiveryProcess(['run', '--admin', '127.0.0.1:0'], { cwd: pod.cwd, env, uid: PROXY })
  const { code, stderr } = await waitFor(pod, name)
  if (code === 0) return agent
  await agent[Symbol.asyncDispose]()
  throw new Error(stderr + agent.stderr)
}

function waitFor({ cwd }: IstioPod, name: string): ReturnType<typeof livery> {
  const args = ['wait', '--socket', join(FOLDER, name), '--name', 'default', '--timeout', '30s']
  return livery(args, { cwd, uid: PROXY })
}

/** A file system gives the inode of a removed file to the next one: the time of birth tells them apart. */
async function identify(path: string): Promise<readonly [inode: bigint, birth: bigint]> {
  const { ino, birthtimeNs } = await stat(path, { bigint: true })
  return [ino, birthtimeNs]
}

/** What Envoy holds, or `undefined` while it lacks one of both. */
async function heldBy({
  envoyAdmin,
}: PilotAgent): Promise<{ readonly serial: string; readonly root: string } | undefined> {
  type Parts = Partial<Record<'cert_chain' | 'ca_cert', readonly { readonly serial_number: string }[]>>
  const { body } = await get(envoyAdmin, '/certs')
  const { certificates }: { readonly certificates: readonly Parts[] } = JSON.parse(body)
  const serial = certificates.flatMap(({ cert_chain: chain }) => chain ?? [])[0]?.serial_number
  const root = certificates.flatMap(({ ca_cert: roots }) => roots ?? [])[0]?.serial_number
  return serial && root ? { serial, root } : undefined
}

/** Where the cluster `sds-grpc` of the bootstrap that pilot-agent has written points to. */
async function sdsAddress({ cwd }: IstioPod): Promise<unknown> {
  const { static_resources: parts } = JSON.parse(await readFile(join(cwd, 'etc/istio/proxy/envoy-rev.json'), 'utf8'))
  const cluster = parts.clusters.find(({ name }: { readonly name: string }) => name === 'sds-grpc')
  return cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address
}

for (const name of ['socket', 'livery'])
  test(`with Livery at ${name}, pilot-agent uses it, and its Envoy gets default and ROOTCA there`, {
    skip,
  }, async t => {
    const pod = await makePod(t)
    await using agent = await startLivery(pod, name)
    const path = join(pod.cwd, FOLDER, name)
    const before = await identify(path)
    await using proxy = await PilotAgent.start(pod, name)
    const held = await until('Envoy has its secrets', () => heldBy(proxy), 30_000).catch(cause => {
      throw new Error(proxy.output, { cause })
    })
    const issued: { readonly serialNumber: string } = JSON.parse(await agent.line(/"event":"issued"/))
    const root = new X509Certificate(await readFile(join(pod.cwd, 'root.pem'))).serialNumber.toLowerCase()
    assert.deepEqual(held, { serial: issued.serialNumber, root })
    assert.match(proxy.output, new RegExp(`Existing workload SDS socket found at ${FOLDER}/${name}\\.`))
    assert.deepEqual(await readdir(join(pod.cwd, FOLDER)), [name])
    assert.deepEqual(await identify(path), before)
    assert.ok((await stat(join(pod.cwd, CREDENTIALS, 'files-socket'))).isSocket())
    assert.deepEqual(await sdsAddress(pod), { pipe: { path: `./${FOLDER}/${name}` } })
  })

test("it finds Livery's socket for a gateway's credentials, and leaves it there", { skip }, async t => {
  const pod = await makePod(t)
  const config = `sharedFolders: [${FOLDER}, ${CREDENTIALS}]
sockets: [{ path: ${CREDENTIALS}/socket, allow: ["file-cert:/etc/gateway/*", "file-root:/etc/gateway/*"] }]
`
  await using _agent = await startLivery(pod, 'livery', config)
  const path = join(pod.cwd, CREDENTIALS, 'socket')
  const before = await identify(path)
  await using proxy = await PilotAgent.start(pod, 'livery')
  await until('Envoy has its secrets', () => heldBy(proxy), 30_000)
  assert.match(proxy.output, /Credential SDS socket found/)
  assert.deepEqual(await identify(path), before)
  assert.deepEqual(await readdir(join(pod.cwd, CREDENTIALS)), ['files-socket', 'socket'])
})

test('without Livery and with a name of our own, pilot-agent exits and binds nothing', { skip }, async t => {
  const pod = await makePod(t)
  await using proxy = await PilotAgent.start(pod, 'livery')
  assert.notEqual(await proxy.ended, 0)
  const message = `agent configured for non-default SDS socket path: ${FOLDER}/livery but no socket found`
  assert.ok(proxy.output.includes(message), proxy.output)
  assert.deepEqual(await readdir(join(pod.cwd, FOLDER)), [])
})

test('of a Livery that does not answer it removes the socket, which is there again when it does', { skip }, async t => {
  const pod = await makePod(t)
  await using agent = await startLivery(pod, 'livery')
  agent.kill('SIGSTOP')
  await using proxy = await PilotAgent.start(pod, 'livery')
  assert.notEqual(await proxy.ended, 0)
  assert.match(proxy.output, /SDS socket detected but not healthy/)
  assert.deepEqual(await readdir(join(pod.cwd, FOLDER)), [])
  agent.kill('SIGCONT')
  const { code, stderr } = await waitFor(pod, 'livery')
  assert.equal(code, 0, stderr + agent.stderr)
})

test('with the default name it takes the place of a Livery that has died', { skip }, async t => {
  const pod = await makePod(t)
  await using agent = await startLivery(pod, 'socket')
  const path = join(pod.cwd, FOLDER, 'socket')
  const before = await identify(path)
  agent.kill('SIGKILL')
  await agent.ended
  await using proxy = await PilotAgent.start(pod, 'socket')
  const said = 'Starting SDS server for workload certificates, will listen on'
  await until('it serves itself', async () => proxy.output.includes(said) || undefined).catch(cause => {
    throw new Error(proxy.output, { cause })
  })
  assert.notDeepEqual(await identify(path), before)
})
