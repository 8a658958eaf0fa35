/** `livery run` with a revocation list: a certificate that it names is replaced at once, and until then every tool says so. */
import assert from 'node:assert/strict'
import { unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import type { ConfigDump } from '../src/admin/config-dump.ts'
import { LiveryProcess, livery } from './livery-process.ts'
import { writePluginModule } from './plugin-module.ts'
import { revoke } from './revocation-list.ts'

const WEB = 'spiffe://cluster.local/web'
const API = 'spiffe://cluster.local/api'

async function start(cwd: string) {
  await writePluginModule(cwd, {
    onIssue: `if (existsSync(folder + '/refuses')) throw new CAError('denied', 'it refuses for now')`,
  })
  const config = {
    ca: { plugin: './acme.mjs' },
    trust: { crl: 'crl.pem' },
    identities: [{ id: WEB, socket: 'web.sock' }, API],
    retry: { min: '50ms', max: '200ms' },
    admin: { address: '127.0.0.1:0' },
    drain: '200ms',
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const agent = new LiveryProcess(['run'], { cwd })
  const admin = await agent.admin()
  await Promise.all([WEB, API].map(name => agent.line(new RegExp(`"event":"issued","resource":"${name}"`))))
  return { agent, admin }
}

async function dumpOf(admin: string, identity: string) {
  const { certificates } = (await (await fetch(`http://${admin}/config_dump`)).json()) as ConfigDump
  return certificates.find(each => each.identity === identity) ?? assert.fail()
}

async function serialOf(admin: string, identity: string): Promise<string> {
  return BigInt((await dumpOf(admin, identity)).certChain[0]?.serialNumber ?? 0).toString(16)
}

const textOf = async (admin: string, path: string) => await (await fetch(`http://${admin}${path}`)).text()

test('a certificate that the list names is replaced as soon as the list is read', async t => {
  const directory = temporaryFolder(t)
  const { agent: started, admin } = await start(directory)
  await using agent = started
  const serial = await serialOf(admin, WEB)
  await revoke(directory, [serial])
  const line: Readonly<Record<string, string>> = JSON.parse(await agent.line(/"event":"revoked"/))
  assert.deepEqual([line['level'], line['resource'], line['serialNumber']], ['warn', WEB, serial])
  await agent.lines(new RegExp(`"event":"issued","resource":"${WEB}"`), 2)
  assert.notEqual(await serialOf(admin, WEB), serial)
  assert.equal((await dumpOf(admin, WEB)).state, 'Available')
  assert.match(await textOf(admin, '/metrics'), /^livery_identities_failing\{code="revoked"\} 0$/m)
})

test('while the CA gives no other, the dump, the commands, readiness, page and metrics call it revoked', async t => {
  const cwd = temporaryFolder(t)
  const { agent: started, admin } = await start(cwd)
  await using agent = started
  const serial = await serialOf(admin, WEB)
  await writeFile(join(cwd, 'refuses'), '')
  await revoke(cwd, [serial])
  await agent.line(/"event":"ca-error".*"code":"denied"/)
  const { state, lastFailure } = await dumpOf(admin, WEB)
  assert.deepEqual([state, lastFailure?.code], ['Failing', 'revoked'])
  const said = new RegExp(`crl\\.pem revokes the leaf with serial ${serial} .*\\(denied\\): it refuses for now`, 's')
  assert.match(lastFailure?.text ?? '', said)
  assert.equal((await dumpOf(admin, API)).state, 'Available')
  for (const command of [
    ['certs', '--failing', '--json'],
    ['doctor', '--json'],
  ]) {
    const { stdout } = await livery([...command, '--admin', admin], { cwd })
    assert.match(stdout, said, command[0])
  }
  assert.match((await livery(['explain', WEB, '--admin', admin], { cwd })).stdout, /revoked, peers refuse it/)
  assert.match(await textOf(admin, '/healthz/ready?mode=strict'), said)
  assert.match(await textOf(admin, '/metrics'), /^livery_identities_failing\{code="revoked"\} 1$/m)
  const page = JSON.parse(await textOf(admin, '/page/state')) as { readonly overview: { readonly failing: object } }
  assert.deepEqual(page.overview.failing, { revoked: 1 })
  await unlink(join(cwd, 'refuses'))
  await livery(['renew', WEB, '--admin', admin], { cwd })
  await agent.lines(new RegExp(`"event":"issued","resource":"${WEB}"`), 2)
  assert.equal((await dumpOf(admin, WEB)).state, 'Available')
})
