/** Real Envoys of two trust domains, each with its own agent and CA, do mutual TLS by Envoy's SPIFFE validator. */
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort } from '../../ca-plugins/test/free-port.ts'
import { deployed, Envoy, get, makeFolder, noEnvoy, startAgent, type Tree, until } from './envoy-bench.ts'

const OURS = 'a.example'
const THEIRS = 'b.example'

/** An agent of one trust domain, which trusts the roots of the other from the file of its CA. */
async function agentOf(folder: string, trustDomain: string, other: string) {
  const cwd = join(folder, trustDomain)
  await mkdir(cwd)
  const id = `spiffe://${trustDomain}/ns/default/sa/workload`
  return await startAgent(cwd, {
    trustDomain,
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [{ id, socket: 'workload.sock' }],
    trust: { federated: { [other]: { file: join(folder, other, 'ca', 'root.pem') } } },
  })
}

/** A configuration of deploy/envoy with other names in it. */
function renamed(config: Tree, names: Readonly<Record<string, string>>): Tree {
  const text = Object.entries(names).reduce((all, [from, to]) => all.replaceAll(from, to), JSON.stringify(config))
  return JSON.parse(text) as Tree
}

test('Envoys of two trust domains do mutual TLS with ALL, and not with ROOTCA', {
  skip: noEnvoy,
}, async () => {
  await using folder = await makeFolder()
  await using _ours = await agentOf(folder.path, OURS, THEIRS)
  await using _theirs = await agentOf(folder.path, THEIRS, OURS)
  const ports = new Map<number, number>()
  for (const port of [15443, 19001, 15001, 19002]) ports.set(port, await freePort())
  const socket = (trustDomain: string) => join(folder.path, trustDomain, 'workload.sock')
  const api = await deployed('api', { socket: socket(THEIRS), ports })
  const web = await deployed('web', { socket: socket(OURS), ports })
  await using apiEnvoy = await Envoy.start(
    folder.path,
    'api',
    renamed(api, { ROOTCA: 'ALL', 'spiffe://cluster.local/': `spiffe://${OURS}/` }),
  )
  const toApi = {
    ROOTCA: 'ALL',
    'spiffe://cluster.local/ns/default/sa/api': `spiffe://${THEIRS}/ns/default/sa/workload`,
  }
  await using webEnvoy = await Envoy.start(folder.path, 'web', renamed(web, toApi))
  await Promise.all([apiEnvoy.live(), webEnvoy.live()])
  const answer = await until('web reaches api', async () => {
    const found = await get(ports.get(15001) ?? 0, '/')
    return found.status === 200 ? found : undefined
  })
  assert.equal(answer.body, 'hello from api\n')
  assert.equal(answer.headers['x-caller'], `spiffe://${OURS}/ns/default/sa/workload`)

  // With the roots of its own trust domain alone, web refuses api.
  const alone = new Map<number, number>()
  for (const port of [15001, 19002]) alone.set(port, await freePort())
  const own = await deployed('web', { socket: socket(OURS), ports: new Map([...ports, ...alone]) })
  const { ROOTCA: _, ...names } = toApi
  await using ownEnvoy = await Envoy.start(folder.path, 'own', renamed(own, names))
  await ownEnvoy.live()
  const refused = await get(alone.get(15001) ?? 0, '/')
  assert.equal(refused.status, 503)
  assert.ok((await ownEnvoy.stat('cluster.api.ssl.fail_verify_error')) > 0)
})
