/** Identities in files that others renew, through the agent to real Envoys. */
import assert from 'node:assert/strict'
import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { type SpiffeId, SystemClock } from '@livery/core'
import { get, livery, makeFolder, noEnvoy, Pair, startAgent, Traffic, until } from './envoy-bench.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'
const NAMES = ['cert-chain.pem', 'key.pem', 'root-cert.pem'] as const
type Files = Readonly<Record<(typeof NAMES)[number], string | Uint8Array>>

async function newSet(ca: FakeCA, identity: SpiffeId): Promise<Files> {
  const { chain, roots, privateKey } = await ca.bring(identity, 600)
  return { 'cert-chain.pem': chain.join(''), 'key.pem': privateKey, 'root-cert.pem': roots.join('') }
}

/** As the kubelet publishes a volume: all files at once. */
async function publish(folder: string, version: number, files: Files): Promise<void> {
  await mkdir(join(folder, `..v${version}`), { recursive: true })
  for (const name of NAMES) {
    await writeFile(join(folder, `..v${version}`, name), files[name])
    if (version === 0) await symlink(`..data/${name}`, join(folder, name))
  }
  await symlink(`..v${version}`, join(folder, '..data_tmp'))
  await rename(join(folder, '..data_tmp'), join(folder, '..data'))
  await rm(join(folder, `..v${version - 1}`), { recursive: true, force: true })
}

/** As a script does it: one file after the other, in place. */
async function overwrite(folder: string, files: Files): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const name of ['key.pem', 'root-cert.pem', 'cert-chain.pem'] as const)
    await writeFile(join(folder, name), files[name])
}

test('two Envoys do mutual TLS while the files of both are replaced, in whole and one by one, and no request fails', {
  skip: noEnvoy,
}, async () => {
  await using folder = await makeFolder()
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  const [webFolder, apiFolder] = ['web', 'api'].map(name => join(folder.path, 'ids/default', name)) as [string, string]
  await publish(webFolder, 0, await newSet(ca, WEB))
  await overwrite(apiFolder, await newSet(ca, API))
  await using agent = await startAgent(folder.path, {
    trustDomain: 'cluster.local',
    ca: { plugin: 'file-mount', folder: 'ids/{namespace}/{serviceAccount}' },
    identities: [
      { id: WEB, socket: 'run/web.sock' },
      { id: API, socket: 'run/api.sock' },
    ],
  })
  const sockets = { api: join(folder.path, 'run/api.sock'), web: join(folder.path, 'run/web.sock') }
  await using pair = await Pair.start(folder.path, sockets)
  await pair.live()
  assert.equal((await get(pair.port, '/')).headers['x-caller'], WEB)

  await using traffic = new Traffic(pair.port)
  const apiSerials = new Set<string>()
  for (let version = 1; version <= 3; version++) {
    await publish(webFolder, version, await newSet(ca, WEB))
    await overwrite(apiFolder, await newSet(ca, API))
    await until(`both have shown ${version + 1} certificates`, async () => {
      for (const { serial } of await pair.api.certificates()) apiSerials.add(serial)
      return (traffic.serials.size === version + 1 && apiSerials.size === version + 1) || undefined
    })
  }

  // A key of somebody else replaces nothing, and who asks is told.
  await writeFile(join(apiFolder, 'key.pem'), (await newSet(ca, WEB))['key.pem'])
  await chmod(join(apiFolder, 'key.pem'), 0o600)
  const before = traffic.requests
  await until('traffic goes on', async () => traffic.requests > before + 100 || undefined)
  await traffic.stop()
  assert.deepEqual(traffic.failures, [])
  assert.equal(apiSerials.size, 4)
  assert.doesNotMatch(agent.output, /PRIVATE KEY/)
  const explained = await livery(folder.path, 'explain', API, '--admin', `127.0.0.1:${agent.adminPort}`)
  assert.equal(explained.match(/issued/g)?.length, 4, explained)
})

test('the root of mounted files moves on: old, old and new, new, and no request fails', { skip: noEnvoy }, async () => {
  await using folder = await makeFolder()
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  const folderOf = (identity: SpiffeId) => join(folder.path, 'ids', identity.slice(identity.lastIndexOf('/')))
  const writeAll = async () => {
    for (const identity of [WEB, API]) await overwrite(folderOf(identity), await newSet(ca, identity))
  }
  await writeAll()
  await using agent = await startAgent(folder.path, {
    trustDomain: 'cluster.local',
    ca: { plugin: 'file-mount', folder: 'ids/{name}' },
    identities: [
      { id: WEB, socket: 'run/web.sock' },
      { id: API, socket: 'run/api.sock' },
    ],
  })
  const sockets = { api: join(folder.path, 'run/api.sock'), web: join(folder.path, 'run/web.sock') }
  await using pair = await Pair.start(folder.path, sockets)
  await pair.live()
  await using traffic = new Traffic(pair.port)
  const roots = async () => {
    const { body } = await get(agent.adminPort, '/metrics')
    return body.match(/^livery_trust_anchor_expiration_timestamp_seconds\{/gm)?.length
  }
  await ca.addRoot()
  await writeAll()
  await until('both roots are served', async () => (await roots()) === 2 || undefined)
  await ca.switchRoot()
  await writeAll()
  await until('api sees web under the new root', async () => traffic.serials.size >= 3 || undefined, 60_000)
  await ca.dropOldRoots()
  await writeAll()
  await until('the old root is gone', async () => (await roots()) === 1 || undefined, 60_000)
  await traffic.stop()
  assert.deepEqual(traffic.failures, [])
})
