/** Istio's own pilot-agent, unchanged, in a pod with Livery's socket and in one without; it starts a real Envoy. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { get, until } from './envoy-bench.ts'
import { CREDENTIALS, FOLDER, type IstioPod, makePod, startLivery, waitFor } from './istio-pod.ts'
import { PilotAgent, cannotRunPilotAgent as skip } from './pilot-agent.ts'

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
  await using _agent = await startLivery(pod, 'livery', { config })
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
