/** Real Envoys verify each other with the bundles of several trust domains, and with revocation lists. */
import assert from 'node:assert/strict'
import { mkdir, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort, TemporaryFolder, temporaryFolder } from '@livery/test-support'
import { deployed, Envoy, get, noEnvoy, startAgent, type Tree, until } from './envoy-bench.ts'
import { writePluginModule } from './plugin-module.ts'
import { revoke } from './revocation-list.ts'

const OURS = 'a.example'
const THEIRS = 'b.example'

/** An agent of one trust domain, which trusts the roots of the other from the file of its CA; `more` is about that one. */
async function agentOf(folder: string, trustDomain: string, other: string, more: object = {}) {
  const cwd = join(folder, trustDomain)
  await mkdir(cwd)
  const id = `spiffe://${trustDomain}/ns/default/sa/workload`
  return await startAgent(cwd, {
    trustDomain,
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [{ id, socket: 'workload.sock' }],
    trust: { federated: { [other]: { file: join(folder, other, 'ca', 'root.pem'), ...more } } },
  })
}

/** A configuration of deploy/envoy with other names in it. */
function renamed(config: Tree, names: Readonly<Record<string, string>>): Tree {
  const text = Object.entries(names).reduce((all, [from, to]) => all.replaceAll(from, to), JSON.stringify(config))
  return JSON.parse(text) as Tree
}

test('Envoys of two trust domains do mutual TLS with ALL, and not with ROOTCA', {
  skip: noEnvoy,
}, async t => {
  const folder = temporaryFolder(t)
  await using _ours = await agentOf(folder, OURS, THEIRS)
  await using _theirs = await agentOf(folder, THEIRS, OURS)
  const ports = new Map<number, number>()
  for (const port of [15443, 19001, 15001, 19002]) ports.set(port, await freePort())
  const socket = (trustDomain: string) => join(folder, trustDomain, 'workload.sock')
  const api = await deployed('api', { socket: socket(THEIRS), ports })
  const web = await deployed('web', { socket: socket(OURS), ports })
  await using apiEnvoy = await Envoy.start(
    folder,
    'api',
    renamed(api, { ROOTCA: 'ALL', 'spiffe://cluster.local/': `spiffe://${OURS}/` }),
  )
  const toApi = {
    ROOTCA: 'ALL',
    'spiffe://cluster.local/ns/default/sa/api': `spiffe://${THEIRS}/ns/default/sa/workload`,
  }
  await using webEnvoy = await Envoy.start(folder, 'web', renamed(web, toApi))
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
  await using ownEnvoy = await Envoy.start(folder, 'own', renamed(own, names))
  await ownEnvoy.live()
  const refused = await get(alone.get(15001) ?? 0, '/')
  assert.equal(refused.status, 503)
  assert.ok((await ownEnvoy.stat('cluster.api.ssl.fail_verify_error')) > 0)
})

test('an Envoy of another trust domain whose serial number is in the list of that one is refused, with ALL', {
  skip: noEnvoy,
}, async t => {
  const folder = temporaryFolder(t)
  const theirs = join(folder, THEIRS)
  await using ours = await agentOf(folder, OURS, THEIRS, { crl: join(theirs, 'crl.pem') })
  await using _theirs = await agentOf(folder, THEIRS, OURS)
  await revoke(theirs, [])
  await until('the list is served', async () => ours.output.includes('"event":"crl-changed"') || undefined)
  const ports = new Map<number, number>()
  for (const port of [15443, 19001, 15001, 19002]) ports.set(port, await freePort())
  const start = async (name: 'api' | 'web', trustDomain: string, names: Readonly<Record<string, string>>) => {
    const file = await deployed(name, { socket: join(folder, trustDomain, 'workload.sock'), ports })
    const envoy = await Envoy.start(folder, name, renamed(file, { ROOTCA: 'ALL', ...names }))
    await envoy.live()
    return envoy
  }
  await using api = await start('api', OURS, { 'spiffe://cluster.local/': `spiffe://${THEIRS}/` })
  const peer = { 'spiffe://cluster.local/ns/default/sa/api': `spiffe://${OURS}/ns/default/sa/workload` }
  await using web = await start('web', THEIRS, peer)
  const answer = (status: number) =>
    until(`an answer of ${status}`, async () => (await get(ports.get(15001) ?? 0, '/')).status === status || undefined)
  await answer(200)
  const [certificate] = await web.certificates()
  assert.ok(certificate)
  await revoke(theirs, [certificate.serial])
  await answer(503)
  assert.ok((await api.stat(`listener.127.0.0.1_${ports.get(15443)}.ssl.fail_verify_error`)) > 0)
  await revoke(theirs, [])
  await answer(200)
})

for (const roots of ['ROOTCA', 'ALL'])
  test(`an Envoy whose serial number is in the revocation list is refused until it has another certificate, with ${roots}`, {
    skip: noEnvoy,
  }, async () => {
    using folder = new TemporaryFolder()
    const { path } = folder
    const names = ['api', 'web', 'other'] as const
    const identities = names.map(name => ({
      id: `spiffe://cluster.local/ns/default/sa/${name}`,
      socket: `${name}.sock`,
    }))
    await writePluginModule(path, {
      onIssue: `if (existsSync(folder + '/refuses')) throw new CAError('denied', 'it refuses for now')`,
    })
    const config = {
      ca: { plugin: './acme.mjs' },
      identities,
      trust: { crl: 'crl.pem' },
      retry: { min: '100ms', max: '200ms' },
    }
    await using agent = await startAgent(path, config)
    await revoke(path, [])
    await until('the list is served', async () => agent.output.includes('"event":"crl-changed"') || undefined)
    const port = await freePort()
    const start = async (name: (typeof names)[number]) => {
      const ports = new Map([[15443, port]])
      for (const each of [19001, 15001, 19002]) ports.set(each, await freePort())
      const file = await deployed(name === 'api' ? 'api' : 'web', { socket: join(path, `${name}.sock`), ports })
      const envoy = await Envoy.start(path, name, renamed(file, { ROOTCA: roots }))
      await envoy.live()
      return Object.assign(envoy, { plain: ports.get(15001) ?? 0 })
    }
    await using api = await start('api')
    await using web = await start('web')
    await using other = await start('other')
    const answer = (envoy: { readonly plain: number }, status: number) =>
      until(`an answer of ${status}`, async () => (await get(envoy.plain, '/')).status === status || undefined)
    await answer(web, 200)
    await answer(other, 200)

    const [certificate] = await web.certificates()
    assert.ok(certificate)
    await writeFile(join(path, 'refuses'), '')
    await revoke(path, [certificate.serial])
    await answer(web, 503)
    assert.ok((await api.stat(`listener.127.0.0.1_${port}.ssl.fail_verify_error`)) > 0)
    await answer(other, 200)
    assert.equal((await get(web.plain, '/')).status, 503)

    await revoke(path, [])
    await answer(web, 200)

    await revoke(path, [certificate.serial])
    await answer(web, 503)
    await unlink(join(path, 'refuses'))
    await answer(web, 200)
    const [next] = await web.certificates()
    assert.notEqual(next?.serial, certificate.serial)
  })

test('an Envoy refuses a peer of another SPIFFE ID than its own configuration names beside the roots', {
  skip: noEnvoy,
}, async t => {
  const folder = temporaryFolder(t)
  await using _agent = await agentOf(folder, OURS, THEIRS)
  const socket = join(folder, OURS, 'workload.sock')
  const ports = new Map<number, number>()
  for (const port of [15443, 19001, 15001, 19002]) ports.set(port, await freePort())
  const start = async (name: 'api' | 'web', names: Readonly<Record<string, string>>) => {
    const envoy = await Envoy.start(folder, name, renamed(await deployed(name, { socket, ports }), names))
    await envoy.live()
    return envoy
  }
  await using _api = await start('api', { 'spiffe://cluster.local/': `spiffe://${OURS}/` })
  const api = 'spiffe://cluster.local/ns/default/sa/api'
  await using web = await start('web', { [api]: `spiffe://${OURS}/ns/default/sa/another` })
  const refused = await until('web has its secrets', async () => {
    await get(ports.get(15001) ?? 0, '/')
    return (await web.stat('cluster.api.ssl.fail_verify_san')) > 0 || undefined
  })
  assert.ok(refused)
  assert.equal((await get(ports.get(15001) ?? 0, '/')).status, 503)
})
