/** Identities in files that others renew, through the agent to real Envoys. */
import assert from 'node:assert/strict'
import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { type SpiffeId, SystemClock } from '@livery/core/plugin'
import { get, livery, noEnvoy, until } from './envoy-bench.ts'
import { API, startUnderTraffic, WEB } from './envoy-rotation.ts'

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
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  const foldersIn = (folder: string) => ({ web: join(folder, 'ids/default/web'), api: join(folder, 'ids/default/api') })
  await using run = await startUnderTraffic({
    async ca(path) {
      const { web, api } = foldersIn(path)
      await publish(web, 0, await newSet(ca, WEB))
      await overwrite(api, await newSet(ca, API))
      return { plugin: 'file-mount', folder: 'ids/{namespace}/{serviceAccount}' }
    },
    settings: {},
  })
  const { agent, folder, pair, traffic } = run
  const { web, api } = foldersIn(folder)
  assert.equal((await get(pair.port, '/')).headers['x-caller'], WEB)
  for (let version = 1; version <= 3; version++) {
    await publish(web, version, await newSet(ca, WEB))
    await overwrite(api, await newSet(ca, API))
    await run.shown(version + 1)
  }

  // A key of another certificate replaces nothing, and the caller gets the reason.
  await writeFile(join(api, 'key.pem'), (await newSet(ca, WEB))['key.pem'])
  await chmod(join(api, 'key.pem'), 0o600)
  const before = traffic.requests
  await until('traffic goes on', async () => traffic.requests > before + 100 || undefined)
  await run.stop()
  assert.equal(run.apiSerials.size, 4)
  const explained = await livery(folder, 'explain', API, '--admin', `127.0.0.1:${agent.adminPort}`)
  assert.equal(explained.match(/issued/g)?.length, 4, explained)
})

test('the root of mounted files moves on: old, old and new, new, and no request fails', { skip: noEnvoy }, async () => {
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  const writeAll = async (folder: string) => {
    for (const [name, id] of [
      ['web', WEB],
      ['api', API],
    ] as const)
      await overwrite(join(folder, 'ids', name), await newSet(ca, id))
  }
  await using run = await startUnderTraffic({
    async ca(path) {
      await writeAll(path)
      return { plugin: 'file-mount', folder: 'ids/{name}' }
    },
    settings: { rotation: { overlap: '1s' } },
  })
  const { agent, folder, traffic } = run
  const roots = async () => {
    const { body } = await get(agent.adminPort, '/metrics')
    return body.match(/^livery_trust_anchor_expiration_timestamp_seconds\{/gm)?.length
  }
  await ca.addRoot()
  await writeAll(folder)
  await until('both roots are served', async () => (await roots()) === 2 || undefined)
  await ca.switchRoot()
  await writeAll(folder)
  await until('api sees web under the new root', async () => traffic.serials.size >= 3 || undefined, 60_000)
  await ca.dropOldRoots()
  await writeAll(folder)
  await until('the old root is gone', async () => (await roots()) === 1 || undefined, 60_000)
  await run.stop()
})
