/** The whole agent with secrets that streams name by their files: configuration, rules, reload, metrics, log. */
import assert from 'node:assert/strict'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { SystemClock } from '@livery/core/plugin'
import { type IssuedPair, PairIssuer } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import type { ConfigDump } from '../src/admin/config-dump.ts'
import { LiveryProcess } from './livery-process.ts'
import { openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
using clock = new SystemClock()
const issuer = await PairIssuer.create(clock)

interface Started {
  readonly cwd: string
  readonly agent: LiveryProcess
  readonly admin: string
  write(config: object): void
}

async function start(t: TestContext, config: (cwd: string) => object): Promise<Started> {
  const cwd = temporaryFolder(t)
  const write = (changed: object) =>
    writeFileSync(
      join(cwd, 'livery.yaml'),
      JSON.stringify({ ca: { plugin: 'embedded' }, admin: { address: '127.0.0.1:0' }, drain: '100ms', ...changed }),
    )
  write(config(cwd))
  const agent = new LiveryProcess(['run'], { cwd })
  t.after(() => agent[Symbol.asyncDispose]())
  return { cwd, agent, admin: await agent.admin(), write }
}

function writePair(folder: string, { chain, key }: IssuedPair): string {
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of Object.entries({ 'key.pem': key, 'cert.pem': chain.join('') })) {
    writeFileSync(join(folder, `${name}.new`), text)
    renameSync(join(folder, `${name}.new`), join(folder, name))
  }
  return `file-cert:${folder}/cert.pem~${folder}/key.pem`
}

test('a pair in files is served on the socket whose allow names it, rotated, and shown in metrics and log', async t => {
  const { cwd, agent, admin } = await start(t, cwd => ({
    identities: [{ id: WEB, socket: { path: 'run/web.sock', allow: [`file-cert:${cwd}/gateway/*`] } }],
    sockets: [{ path: 'run/sds.sock', allow: [WEB] }],
  }))
  const pair = await issuer.issue(WEB)
  const name = writePair(join(cwd, 'gateway'), pair)
  using stream = await openStream(join(cwd, 'run/web.sock'), [name])
  assert.equal(stream.secrets[0]?.certificateChain, pair.chain.join(''))
  assert.equal(stream.secrets[0].privateKey, pair.key)
  const next = await issuer.issue(WEB)
  writePair(join(cwd, 'gateway'), next)
  await stream.answered(2)
  assert.equal(stream.answers[1]?.[0]?.certificateChain, next.chain.join(''))
  const { files } = (await (await fetch(`http://${admin}/config_dump`)).json()) as ConfigDump
  const [listed] = files
  assert.deepEqual([listed?.name, listed?.state, files.length], [name, 'Available', 1])
  const left = Date.parse(listed?.expirationTime ?? '') - Date.now()
  assert.ok(left > 3_500_000 && left <= 3_600_000, `${left} ms remain`)
  await agent.line(/"event":"read-from-files","resource":"file-cert:.*read: serial [0-9a-f]+, valid until /)

  using other = await openStream(join(cwd, 'run/sds.sock'), [name])
  assert.deepEqual(other.secrets, [])
  await agent.line(/"event":"refused",.*this caller is not allowed these files: see allow and callers of this socket/)
})

test("a gateway's credentials are served at Istio's socket for them, from files, under the names that its Envoy asks for", async t => {
  const [pair, next] = [await issuer.issue(WEB), await issuer.issue(WEB)]
  const { cwd, admin } = await start(t, cwd => {
    const name = writePair(join(cwd, 'gateway'), pair)
    const roots = `file-root:${cwd}/gateway/ca.pem`
    writeFileSync(join(cwd, 'gateway/ca.pem'), issuer.root)
    return {
      identities: [WEB],
      sockets: [{ path: 'var/run/secrets/credential-uds/socket', allow: [`file-cert:${cwd}/gateway/*`, roots] }],
      files: { names: { 'sds://shop': name, 'sds://shop-cacert': roots, 'sds://other': 'file-root:/etc/other.pem' } },
    }
  })
  const socket = join(cwd, 'var/run/secrets/credential-uds/socket')
  using stream = await openStream(socket, ['sds://shop'])
  assert.deepEqual([stream.secrets[0]?.name, stream.secrets[0]?.privateKey], ['sds://shop', pair.key])
  using roots = await openStream(socket, ['sds://shop-cacert'])
  assert.deepEqual(
    roots.secrets.map(({ name, trustedCa }) => [name, trustedCa.trim()]),
    [['sds://shop-cacert', issuer.root.trim()]],
  )
  writePair(join(cwd, 'gateway'), next)
  await stream.answered(2)
  assert.equal(stream.answers[1]?.[0]?.certificateChain, next.chain.join(''))
  const explain = async (name: string) => await (await fetch(`http://${admin}/explain?name=${name}`)).text()
  assert.match(await explain('sds://shop'), /read: serial/)
  // The rules of access are those of the files.
  using other = await openStream(socket, ['sds://other'])
  assert.deepEqual(other.secrets, [])
  assert.match(await explain('sds://other'), /this caller is not allowed these files/)
})

test('a folder that a reload allows is served at once, and a name that it no longer allows ends the connection', async t => {
  const config = (...allow: readonly string[]) => ({
    identities: [WEB],
    sockets: [{ path: 'sds.sock', allow: [WEB, ...allow] }],
  })
  const { cwd, write } = await start(t, () => config())
  const pair = await issuer.issue(WEB)
  const name = writePair(join(cwd, 'gateway'), pair)
  using stream = await openStream(join(cwd, 'sds.sock'), [name])
  assert.deepEqual(stream.secrets, [])
  write(config(name))
  await stream.answered(2)
  assert.equal(stream.answers[1]?.[0]?.certificateChain, pair.chain.join(''))
  write(config())
  assert.notEqual(await stream.ended, 0)
})

test('a file outside of files.allow is refused, though a socket allows it', async t => {
  const { cwd, agent } = await start(t, cwd => ({
    identities: [WEB],
    sockets: [{ path: 'sds.sock', allow: [`file-cert:${cwd}/**`] }],
    files: { allow: ['allowed'] },
  }))
  const pair = await issuer.issue(WEB)
  const [inside, outside] = ['allowed', 'gateway'].map(folder => writePair(join(cwd, folder), pair))
  using stream = await openStream(join(cwd, 'sds.sock'), [inside ?? '', outside ?? ''])
  if (stream.answers[0]?.length === 0) await stream.answered(2)
  assert.deepEqual(
    stream.answers.flat().map(secret => secret.name),
    [inside],
  )
  await agent.line(/"event":"refused",.*gateway\/cert\.pem: it is in no folder of files\.allow\. Add the folder/)
})
