/** A root rotation over two nodes that hear of the new root at different times, under traffic between real Envoys. */
import assert from 'node:assert/strict'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { freePort, TemporaryFolder } from '@livery/test-support'
import type { TrustStatus } from '../src/admin/routes.ts'
import type { ListedRoot } from '../src/commands/ca-root-socket.ts'
import { get, livery, noEnvoy, Pair, type Process, startAgent, Traffic, until } from './envoy-bench.ts'
import { API, WEB } from './envoy-rotation.ts'
import { LiveryProcess } from './livery-process.ts'

/** The second node hears of the root so many seconds after the first; certificates and waits are as much longer. */
const GAP = process.env['LIVERY_SLOW'] ? 20 : 5

const TOKENS = `- { token: some-secret-of-web, identity: ${WEB} }\n- { token: some-secret-of-api, identity: ${API} }\n`

interface Node {
  readonly agent: Process & { readonly adminPort: number }
  readonly folder: string
}

/** A CA, and a node for each of the two workloads. */
interface Mesh extends AsyncDisposable {
  readonly web: Node
  readonly api: Node
  readonly pair: Pair
  readonly traffic: Traffic
  root(...args: readonly string[]): Promise<readonly ListedRoot[]>
  /** The operator writes the roots of the CA to a node. */
  announce(node: Node): Promise<void>
}

async function startMesh(rotation: object, ofApi: object = rotation): Promise<Mesh> {
  await using parts = new AsyncDisposableStack()
  const { path: folder } = parts.use(new TemporaryFolder())
  await writeFile(join(folder, 'tokens.yaml'), TOKENS)
  const address = `127.0.0.1:${await freePort()}`
  const ca = new LiveryProcess(['ca', '--tokens', 'tokens.yaml', '--dir', 'ca', '--listen', address], { cwd: folder })
  parts.use(ca)
  await ca.line(/CA of cluster\.local on/)
  const bundle = join(folder, 'ca', 'root.pem')
  const startNode = async (name: string, identity: string, own: object): Promise<Node> => {
    const node = parts.use(new TemporaryFolder()).path
    await copyFile(bundle, join(node, 'roots.pem'))
    await writeFile(join(node, 'token'), `some-secret-of-${name}`, { mode: 0o600 })
    const agent = await startAgent(node, {
      trustDomain: 'cluster.local',
      ttl: `${5 * GAP}s`,
      rotation: { ratio: 0.25, jitter: 0.05, ...own },
      ca: { plugin: 'citadel', address, rootCert: bundle, tokenFile: 'token' },
      trust: { anchors: ['roots.pem'] },
      identities: [{ id: identity, socket: 'run/own.sock' }],
    })
    return { agent: parts.use(agent), folder: node }
  }
  const [web, api] = [await startNode('web', WEB, rotation), await startNode('api', API, ofApi)]
  const socket = (node: Node) => join(node.folder, 'run/own.sock')
  const pair = parts.use(await Pair.start(folder, { web: socket(web), api: socket(api) }))
  await pair.live()
  const traffic = parts.use(new Traffic(pair.port))
  await until('traffic flows', async () => traffic.requests > 20 || undefined)
  const root = async (...args: readonly string[]) => {
    const output = await livery(folder, 'ca', 'root', ...args, '--dir', 'ca', '--json')
    return JSON.parse(output) as readonly ListedRoot[]
  }
  const announce = (node: Node) => copyFile(bundle, join(node.folder, 'roots.pem'))
  const all = parts.move()
  return { web, api, pair, traffic, root, announce, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

async function statusOf({ agent }: Node) {
  const { trustDomains }: TrustStatus = JSON.parse((await get(agent.adminPort, '/trust')).body)
  return trustDomains[0]
}

async function leavesUnder(node: Node, fingerprint: string): Promise<number> {
  return (await statusOf(node))?.roots.find(root => root.fingerprint === fingerprint)?.leaves ?? 0
}

const LONG = GAP * 12_000

test('two nodes hear of a root tens of seconds apart, and no request fails from the first step to the last', {
  skip: noEnvoy,
}, async () => {
  await using mesh = await startMesh({ settle: `${GAP * 1.25}s`, overlap: '1s' })
  const { web, api, traffic } = mesh
  const [old, next] = await mesh.root('add')
  assert.ok(old && next)
  await mesh.announce(web)
  await mesh.root('switch', next.id)
  await until('web knows it', async () => ((await statusOf(web))?.roots.length === 2 ? true : undefined))
  await wait(GAP * 1_000)
  await mesh.announce(api)
  for (const node of [web, api]) {
    const isMoved = async () => (await leavesUnder(node, next.id)) > 0 && (await leavesUnder(node, old.id)) === 0
    await until('the certificate is under the new root', async () => (await isMoved()) || undefined, LONG)
  }
  await mesh.root('remove', old.id)
  for (const node of [web, api]) await mesh.announce(node)
  for (const node of [web, api])
    await until('the old root leaves', async () => (await statusOf(node))?.roots.length === 1 || undefined, LONG)
  const before = traffic.requests
  await until('traffic goes on', async () => traffic.requests > before + 50 || undefined)
  await traffic.stop()
  assert.deepEqual(traffic.failures, [])
  assert.ok(traffic.serials.size >= 2)
})

test('without the phases the same rotation fails requests: the peer does not know the root yet', {
  skip: noEnvoy,
}, async () => {
  const noPhases = { settle: '0s', ackWait: '0s' }
  // A renewal would bring api the new root.
  await using mesh = await startMesh(noPhases, { ...noPhases, ratio: 0.9 })
  const { web, traffic, pair } = mesh
  const [, next] = await mesh.root('add')
  assert.ok(next)
  await mesh.announce(web)
  await mesh.root('switch', next.id)
  await until(
    'web serves a certificate under the new root',
    async () => (await leavesUnder(web, next.id)) || undefined,
    LONG,
  )
  await until('requests fail', async () => traffic.failures.length > 0 || undefined)
  await traffic.stop()
  assert.match(traffic.failures[0] ?? '', /^503 /)
  const { body } = await get(pair.api.adminPort, '/stats?filter=ssl.fail_verify_error')
  assert.match(body, /ssl\.fail_verify_error: [1-9]/, "api's Envoy cannot verify the certificate of web")
})
