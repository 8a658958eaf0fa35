/** The whole agent where certificates are mounted in a well-known folder: they come before those of the CA. */
import assert from 'node:assert/strict'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { SystemClock } from '@livery/core/plugin'
import { type IssuedPair, PairIssuer } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess } from './livery-process.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const NAMES = {
  istio: ['key.pem', 'cert-chain.pem', 'root-cert.pem'],
  gke: ['private_key.pem', 'certificates.pem', 'ca_certificates.pem'],
}

using clock = new SystemClock()
const issuer = await PairIssuer.create(clock)

function mount(folder: string, { key, chain, root }: IssuedPair, names: readonly string[] = NAMES.istio): void {
  for (const [index, text] of [key, chain.join(''), root].entries()) {
    const path = join(folder, names[index] ?? '')
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
  }
}

async function start(t: TestContext, prepare: (folder: string) => void, more: object = {}) {
  const cwd = temporaryFolder(t)
  const folder = join(cwd, 'certs')
  mkdirSync(folder)
  prepare(folder)
  const config = {
    ca: { plugin: 'embedded' },
    identities: [
      { id: WEB, socket: 'web.sock' },
      { id: API, socket: 'api.sock' },
    ],
    files: { wellKnown: [folder] },
    admin: { address: '127.0.0.1:0' },
    drain: '100ms',
    ...more,
  }
  writeFileSync(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const agent = new LiveryProcess(['run'], { cwd })
  t.after(() => agent[Symbol.asyncDispose]())
  await agent.admin()
  return { folder, agent, web: join(cwd, 'web.sock'), api: join(cwd, 'api.sock') }
}

for (const [layout, names] of Object.entries(NAMES))
  test(`the identity of a mounted pair has it as default, with its roots, and nobody else does: names of ${layout}`, async t => {
    const pair = await issuer.issue(WEB)
    const { web, api, agent, folder } = await start(t, into => mount(into, pair, names))
    using stream = await openStream(web, ['default', 'ROOTCA'])
    while (stream.answers.flat().length < 2) await stream.answered(stream.answers.length + 1)
    const secrets = new Map(stream.answers.flat().map(secret => [secret.name, secret]))
    assert.equal(secrets.get('default')?.certificateChain, pair.chain.join(''))
    assert.ok(secrets.get('ROOTCA')?.trustedCa.includes(pair.root.trim()))
    await agent.line(new RegExp(`${WEB} has its certificate from ${folder}/\\S+: no CA is asked for it`))
    const other = new Map((await fetchSecrets(api, ['default', 'ROOTCA'])).map(secret => [secret.name, secret]))
    assert.ok(other.get('default') && other.get('default')?.certificateChain !== pair.chain.join(''))
    assert.ok(!other.get('ROOTCA')?.trustedCa.includes(pair.root.trim()))
    const next = await issuer.issue(WEB)
    const before = stream.answers.length
    mount(folder, next, names)
    await stream.answered(before + 1)
    assert.equal(stream.answers.at(-1)?.[0]?.certificateChain, next.chain.join(''))
  })

test('a pair that is mounted later takes the place of the one of the CA', async t => {
  const { web, folder } = await start(t, () => {})
  using stream = await openStream(web, ['default'])
  const pair = await issuer.issue(WEB)
  mount(folder, pair)
  await stream.answered(2)
  assert.equal(stream.answers[1]?.[0]?.certificateChain, pair.chain.join(''))
})

test('an output directory is never read as a mounted one', async t => {
  const { web, agent, folder } = await start(t, () => {}, {
    identities: [
      { id: WEB, socket: 'web.sock', output: { directory: 'certs' } },
      { id: API, socket: 'api.sock' },
    ],
    ttl: '4s',
  })
  await agent.lines(new RegExp(`"msg":"written to ${folder}"`), 2)
  assert.equal((await fetchSecrets(web, ['default'])).length, 1)
  assert.ok(!agent.stderr.includes('has its certificate from'))
})
