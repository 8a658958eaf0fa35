/** A workload that can write its own folder, and adds a root to it: the other workloads must not trust it. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { type SpiffeId, SystemClock } from '@livery/core/plugin'
import { TemporaryFolder } from '@livery/test-support'
import { until } from './envoy-bench.ts'
import { LiveryProcess, livery } from './livery-process.ts'
import { openStream } from './sds-client.ts'

const IDENTITIES = {
  web: 'spiffe://cluster.local/ns/default/sa/web',
  api: 'spiffe://cluster.local/ns/default/sa/api',
} as const satisfies Record<string, SpiffeId>
type Name = keyof typeof IDENTITIES

/** An agent over `ids/web` and `ids/api`, the CA that wrote both, and that of an attacker. */
async function setUp(t: TestContext, ca: object) {
  const stack = new AsyncDisposableStack()
  t.after(() => stack.disposeAsync())
  const { path } = stack.use(new TemporaryFolder())
  const clock = stack.use(new SystemClock())
  const honest = stack.use(await FakeCA.create({ clock }))
  const evil = stack.use(await FakeCA.create({ clock }))
  const writeRoots = (name: Name, roots: readonly string[]) =>
    writeFile(join(path, 'ids', name, 'root-cert.pem'), roots.join(''))
  const writePair = async (name: Name, signer: FakeCA) => {
    const { chain, privateKey } = await signer.bring(IDENTITIES[name])
    await writeFile(join(path, 'ids', name, 'key.pem'), privateKey, { mode: 0o600 })
    await writeFile(join(path, 'ids', name, 'cert-chain.pem'), chain.join(''))
  }
  for (const name of ['web', 'api'] as const) {
    await mkdir(join(path, 'ids', name), { recursive: true })
    await writeRoots(name, honest.trustBundle())
    await writePair(name, honest)
  }
  const identities = Object.entries(IDENTITIES).map(([name, id]) => ({ id, socket: `run/${name}.sock` }))
  const config = { ca: { plugin: 'file-mount', folder: 'ids/{name}', ...ca }, identities, drain: '200ms' }
  await writeFile(join(path, 'livery.yaml'), JSON.stringify({ ...config, admin: { address: '127.0.0.1:0' } }))
  const agent = stack.use(new LiveryProcess(['run'], { cwd: path }))
  const admin = await agent.admin()
  const open = async (name: Name) => stack.use(await openStream(join(path, 'run', `${name}.sock`), ['ROOTCA']))
  const explain = async (name: Name) =>
    (await livery(['explain', IDENTITIES[name], '--admin', admin], { cwd: path })).stdout
  return { honest: honest.trustBundle(), evil, writeRoots, writePair, open, explain, certs: { path, admin } }
}

function rootsOf(answers: Awaited<ReturnType<typeof openStream>>['answers']): readonly (readonly string[])[] {
  return answers.map(secrets =>
    (secrets[0]?.trustedCa.match(/-----BEGIN[^-]*-----[^-]*-----END[^-]*-----\n/g) ?? []).toSorted(),
  )
}

test('a root that is added to the folder of one identity is served to that one only, and verifies no other', async t => {
  const { honest, evil, writeRoots, writePair, open, explain } = await setUp(t, {})
  const [web, api] = [await open('web'), await open('api')]
  assert.deepEqual(rootsOf([...web.answers, ...api.answers]), [honest, honest])
  const both = [...honest, ...evil.trustBundle()].toSorted()
  await writeRoots('web', both)
  await web.answered(2)
  assert.deepEqual(rootsOf(web.answers), [honest, both])
  await writePair('api', evil)
  await until(
    'the certificate of api is refused',
    async () => /does not lead to the one known root/.test(await explain('api')) || undefined,
  )
  assert.deepEqual(rootsOf(api.answers), [honest])
  assert.deepEqual(rootsOf((await open('api')).answers), [honest])
  await writePair('web', evil)
  await until(
    'web goes on under its own root',
    async () => (await explain('web')).match(/issued: /g)?.length === 3 || undefined,
  )
})

test('the folders supply the roots of the trust domain where the configuration says so', async t => {
  const { honest, evil, writeRoots, open } = await setUp(t, { rootsFor: 'trust-domain' })
  const api = await open('api')
  await writeRoots('web', [...honest, ...evil.trustBundle()])
  await api.answered(2)
  assert.equal(rootsOf(api.answers)[1]?.length, 2)
  assert.ok(
    rootsOf(api.answers)
      .flat()
      .every(pem => new X509Certificate(pem).ca),
  )
})
