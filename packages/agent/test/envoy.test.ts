/** The main job, with the real client: Envoys get rotating identities from the agent, and no request fails. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { CertificateAuthority, EmbeddedClient } from '@livery/ca-plugins/embedded'
import { SecretManager } from '@livery/core'
import { SystemClock } from '@livery/core/plugin'
import { createKeyGenerator } from '@livery/native-keygen'
import { createSdsServer } from '@livery/sds-server'
import { freePort, temporaryFolder } from '@livery/test-support'
import { parse } from 'yaml'
import { deployed, Envoy, get, livery, noEnvoy, Pair, startAgent, Traffic, type Tree, until } from './envoy-bench.ts'
import { API, startUnderTraffic, WEB } from './envoy-rotation.ts'

function twoWorkloads(ttl: string): object {
  return {
    trustDomain: 'cluster.local',
    ttl,
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [
      { id: WEB, socket: 'run/web.sock' },
      { id: API, socket: 'run/api.sock' },
    ],
  }
}

function sockets(folder: string) {
  return { api: join(folder, 'run/api.sock'), web: join(folder, 'run/web.sock') }
}

for (const delta of [false, true]) {
  const protocol = delta ? 'Delta' : 'state of the world'
  test(`two Envoys do mutual TLS over ${protocol} while both certificates rotate, and no request fails`, {
    skip: noEnvoy,
  }, async () => {
    await using run = await startUnderTraffic({
      ca: async () => ({ plugin: 'embedded', directory: 'ca' }),
      settings: { ttl: '6s' },
      delta,
    })
    const first = await get(run.pair.port, '/')
    assert.equal(first.body, 'hello from api\n')
    assert.equal(first.headers['x-caller'], WEB)
    await run.shown(4)
    await run.stop()
    const { body: curves } = await get(run.pair.api.adminPort, '/stats?filter=ssl.curves')
    assert.match(curves, /^listener\..*\.ssl\.curves\.X25519MLKEM768: [1-9]/m)
    assert.doesNotMatch(curves, /\.X25519: [1-9]/)
  })
}

test('the Envoys of deploy/envoy do mutual TLS with keys of ecdsa-p384', { skip: noEnvoy }, async () => {
  await using run = await startUnderTraffic({
    ca: async () => ({ plugin: 'embedded', directory: 'ca' }),
    settings: { ttl: '6s', keyType: 'ecdsa-p384' },
  })
  const answer = await get(run.pair.port, '/')
  assert.equal(answer.body, 'hello from api\n')
  assert.equal(answer.headers['x-caller'], WEB)
  await run.shown(2)
  await run.stop()
})

test('the agent is killed and started again under traffic: no request fails, and both Envoys get new certificates', {
  skip: noEnvoy,
}, async t => {
  const folder = temporaryFolder(t)
  const first = await startAgent(folder, twoWorkloads('60s'))
  await using pair = await Pair.start(folder, sockets(folder))
  await pair.live()
  await using traffic = new Traffic(pair.port)
  await until('traffic flows', async () => traffic.requests > 20 || undefined)
  const before = (await pair.web.certificates()).map(({ serial }) => serial)
  await first[Symbol.asyncDispose]()
  await using _second = await startAgent(folder, twoWorkloads('60s'))
  for (const envoy of [pair.web, pair.api]) {
    await until('the Envoy shows a certificate of the second agent', async () => {
      const serials = (await envoy.certificates()).map(({ serial }) => serial)
      return (serials.length > 0 && serials.every(serial => !before.includes(serial))) || undefined
    })
  }
  await until('api sees the new one', async () => traffic.serials.size >= 2 || undefined)
  await traffic.stop()
  assert.deepEqual(traffic.failures, [])
})

test('the root rotates old → old ∪ new → new, leaves between, and no request fails', { skip: noEnvoy }, async t => {
  const folder = temporaryFolder(t)
  using clock = new SystemClock()
  await using ca = new EmbeddedClient(await CertificateAuthority.open({ clock, trustDomain: 'cluster.local' }))
  const { generator } = createKeyGenerator()
  await using manager = new SecretManager({
    ca,
    keyGenerator: generator,
    clock,
    trustDomain: 'cluster.local',
    // Leaves follow within a tenth of their life.
    ttlSeconds: 60,
    rotation: { settleMs: 1_000, overlapMs: 1_000 },
  })
  manager.add(WEB)
  manager.add(API)
  const paths = sockets(folder)
  await using _server = await createSdsServer({
    sockets: [
      { path: paths.web, identity: WEB },
      { path: paths.api, identity: API },
    ],
    source: manager,
    names: { default: 'default', root: 'ROOTCA', all: 'ALL' },
    clock,
  })
  await using pair = await Pair.start(folder, paths)
  await pair.live()
  await using traffic = new Traffic(pair.port)
  await until('traffic flows', async () => traffic.requests > 20 || undefined)
  const roots = () => manager.bundles()[0]?.roots.map(({ fingerprint }) => fingerprint) ?? []
  const leafRoots = () => manager.entries().map(({ root }) => root?.fingerprint)
  const [oldRoot] = roots()

  const [oldId = ''] = ca.authority.roots().map(({ id }) => id)
  await ca.authority.switchTo(await ca.authority.addRoot())
  await until('both roots are served', async () => roots().length === 2 || undefined)
  assert.deepEqual(leafRoots(), [oldRoot, oldRoot])
  await until('both leaves are under the new root', async () => leafRoots().every(it => it !== oldRoot) || undefined)
  await ca.authority.removeRoot(oldId)
  await until('the old root is gone', async () => (roots().length === 1 && roots()[0] !== oldRoot) || undefined)
  const after = traffic.requests
  await until('traffic goes on', async () => traffic.requests > after + 50 || undefined)
  await traffic.stop()
  assert.deepEqual(traffic.failures, [])
  assert.ok(traffic.serials.size >= 2)
})

/** A cluster like web's to api, asking the shared socket for a certificate of this name. */
function clusterFor(web: Tree, name: string, secret: string): Tree {
  const cluster = structuredClone(web['static_resources']?.['clusters']?.[0]) as Tree
  Object.assign(cluster, { name })
  const tls = cluster['transport_socket']?.['typed_config']?.['common_tls_context']
  const certificate = tls?.['tls_certificate_sds_secret_configs']?.[0]
  if (!tls || !certificate) throw new Error('deploy/envoy/web.yaml asks for no certificate')
  Object.assign(certificate, { name: secret })
  const validation = tls['combined_validation_context']?.['validation_context_sds_secret_config']
  for (const config of [certificate, validation])
    Object.assign(config?.['sds_config'] ?? {}, { initial_fetch_timeout: '2s' })
  return cluster
}

const shared = (names: readonly string[], identities: readonly unknown[] = names) => ({
  ...twoWorkloads('1h'),
  identities,
  sockets: [{ path: 'run/sds.sock', allow: names }],
})

test('a forbidden name leaves its cluster without a certificate; the others work', { skip: noEnvoy }, async t => {
  const folder = temporaryFolder(t)
  const socket = join(folder, 'run/sds.sock')
  await using agent = await startAgent(folder, {
    ...twoWorkloads('1h'),
    sockets: [{ path: 'run/sds.sock', allow: [WEB] }],
  })
  await using pair = await Pair.start(
    folder,
    { api: sockets(folder).api, web: socket },
    {
      change: web => {
        const clusters = web['static_resources']?.['clusters']
        clusters?.push(clusterFor(web, 'forbidden', API))
        clusters?.push(clusterFor(web, 'broken', 'ROOTCA'))
        const own = clusters?.[0]?.['transport_socket']?.['typed_config']?.['common_tls_context']
        Object.assign(own?.['tls_certificate_sds_secret_configs']?.[0] ?? {}, { name: WEB })
      },
    },
  )
  await pair.live()
  assert.equal((await get(pair.port, '/')).headers['x-caller'], WEB)
  const held = await pair.web.certificates()
  assert.deepEqual([...new Set(held.map(({ uri }) => uri))], [WEB])
  assert.equal(await pair.web.stat('cluster.forbidden.ssl_context_update_by_sds'), 0)

  const explained = await livery(folder, 'explain', API, '--admin', `127.0.0.1:${agent.adminPort}`)
  assert.match(explained, /refused/)
  // Envoy asked for the bundle where a certificate belongs, and said no: its words are in the ledger, scrubbed.
  const nacked = await until('the NACK is in the ledger', async () => {
    const text = await livery(folder, 'explain', 'spiffe://cluster.local', '--admin', `127.0.0.1:${agent.adminPort}`)
    return /incomplete private key/.test(text) ? text : undefined
  })
  assert.doesNotMatch(nacked, /BEGIN|PRIVATE KEY-----/)
})

test('one Envoy gets 200 secrets over one socket', { skip: noEnvoy }, async t => {
  const folder = temporaryFolder(t)
  const names = Array.from({ length: 200 }, (_, index) => `spiffe://cluster.local/ns/load/sa/sa-${index}`)
  const range = [{ range: 'spiffe://cluster.local/ns/load/sa/sa-{0..199}' }]
  await using _agent = await startAgent(folder, shared(['spiffe://cluster.local/ns/load/sa/*'], range))
  const ports = new Map([
    [19002, await freePort()],
    [15001, await freePort()],
  ])
  const web = await deployed('web', { socket: join(folder, 'run/sds.sock'), ports })
  const clusters = web['static_resources']?.['clusters']
  clusters?.push(...names.map((name, index) => clusterFor(web, `c${index}`, name)))
  clusters?.shift()
  const routes = web['static_resources']?.['listeners']
  routes?.shift()
  await using envoy = await Envoy.start(folder, 'many', web)
  await envoy.live()
  const uris = await until('all 200 are there', async () => {
    const found = new Set((await envoy.certificates()).map(({ uri }) => uri))
    return found.size === 200 ? found : undefined
  })
  assert.deepEqual([...uris].sort(), names.toSorted())
})

test('the snippet to copy is what the example Envoys use', async () => {
  const file = async (name: string) =>
    parse(await readFile(new URL(`../../../deploy/envoy/${name}.yaml`, import.meta.url), 'utf8')) as Tree
  const snippet = await file('livery-sds')
  for (const name of ['api', 'web']) {
    const text = JSON.stringify(await file(name))
    const socket = `./.livery/run/${name}.sock`
    assert.ok(text.includes(JSON.stringify(snippet['sds_config'])), `${name}.yaml has another sds_config`)
    const cluster = JSON.stringify(snippet['cluster']).replace('./.livery/run/web.sock', socket)
    assert.ok(text.includes(cluster), `${name}.yaml has another cluster`)
  }
})
