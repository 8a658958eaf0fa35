/** `livery run` with a plugin from a module that misbehaves: the process stays up, serves what it has, and reports why. */
import assert from 'node:assert/strict'
import { unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from './livery-process.ts'
import { writePluginModule } from './plugin-module.ts'
import { fetchSecrets } from './sds-client.ts'

const GOOD = 'spiffe://cluster.local/good'
const BAD = 'spiffe://cluster.local/bad'

const issued = (identity: string) => new RegExp(`"event":"issued","resource":"${identity}"`)

test('a plugin that crashes for one identity leaves the agent up and the others served; explain says why; it heals', async t => {
  const cwd = temporaryFolder(t)
  // It crashes once the other has its certificate, which chance would otherwise keep from it for a minute.
  await writePluginModule(cwd, {
    onIssue: `if (request.identity.endsWith('bad')) {
      if (existsSync(folder + '/broken')) process.exit(9)
      if (!existsSync(folder + '/fixed')) throw new CAError('unavailable', 'not yet')
    }`,
  })
  const config = {
    ca: { plugin: './acme.mjs' },
    identities: [
      { id: GOOD, socket: 'good.sock' },
      { id: BAD, socket: 'bad.sock' },
    ],
    admin: { address: '127.0.0.1:0' },
    retry: { max: '2s' },
    drain: '200ms',
    log: { level: 'debug' },
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  await using agent = new LiveryProcess(['run'], { cwd })
  const admin = await agent.admin()
  await agent.line(issued(GOOD))
  await writeFile(join(cwd, 'broken'), '')
  await agent.line(
    /"level":"error".*"plugin":"acme".*The CA plugin acme \(\.\/acme\.mjs\) ended its process \(exit code 9\)/,
  )
  const [served] = await fetchSecrets(join(cwd, 'good.sock'), ['default'])
  assert.match(served?.certificateChain ?? '', /BEGIN CERTIFICATE/)
  const { stdout } = await livery(['explain', BAD, '--admin', admin], { cwd })
  assert.match(stdout, /the CA did not issue \(unavailable\): The CA plugin acme \(\.\/acme\.mjs\) ended its process/)
  const metrics = await (await fetch(`http://${admin}/metrics`)).text()
  assert.match(metrics, /^livery_ca_plugin_restarts_total [1-9]/m)

  await writeFile(join(cwd, 'fixed'), '')
  await unlink(join(cwd, 'broken'))
  await agent.line(issued(BAD))
  const [healed] = await fetchSecrets(join(cwd, 'bad.sock'), ['default'])
  assert.match(healed?.certificateChain ?? '', /BEGIN CERTIFICATE/)
  agent.kill('SIGTERM')
  assert.deepEqual(await agent.ended, { code: 0, signal: null })
})

test("a configuration that the plugin's check refuses exits with 78, and changes nothing at a reload", async t => {
  const cwd = temporaryFolder(t)
  const check = `check({ site }) {
    if (site === 'b') throw Object.assign(new TypeError('Cannot use site "b": it is closed. Write a.'), { option: 'site' })
  },`
  await writePluginModule(cwd, { fields: `options: { site: { type: 'string', description: '' } }, ${check}` })
  const write = (site: string, ...more: readonly string[]) =>
    writeFile(
      join(cwd, 'livery.yaml'),
      JSON.stringify({
        ca: { plugin: './acme.mjs', site },
        identities: [{ id: GOOD, socket: 'good.sock' }, ...more],
        admin: { address: '127.0.0.1:0' },
        drain: '200ms',
      }),
    )
  await write('a')
  await using agent = new LiveryProcess(['run'], { cwd })
  const admin = await agent.admin()
  await agent.line(issued(GOOD))
  await write('b', BAD)
  const says = 'livery.yaml:1: ca.site: Cannot use site "b": it is closed. Write a.'
  const { msg }: { readonly msg: string } = JSON.parse(await agent.line(/not reloaded/))
  assert.equal(
    msg,
    `not reloaded, the previous configuration stays in force: the configuration cannot be used.\n  ${says}`,
  )
  const dump = await (await fetch(`http://${admin}/config_dump`)).text()
  assert.doesNotMatch(dump, new RegExp(BAD))
  const { code, stderr } = await livery(['check-config'], { cwd })
  assert.deepEqual([code, stderr], [78, `livery: the configuration cannot be used.\n  ${says}\n`])
  await write('a', BAD)
  await agent.line(issued(BAD))
})

test('a module that ends the process while it is loaded is exit 78', async t => {
  const directory = temporaryFolder(t)
  await writePluginModule(directory, { onLoad: 'process.exit(0)' })
  const config = { ca: { plugin: './acme.mjs' }, identities: [GOOD], sockets: [{ path: 's' }] }
  await writeFile(join(directory, 'livery.yaml'), JSON.stringify(config))
  const { code, stderr } = await livery(['run'], { cwd: directory })
  assert.equal(code, 78)
  assert.match(
    stderr,
    /livery\.yaml:1: ca\.plugin: "\.\/acme\.mjs" cannot be loaded: it ended its process \(exit code 0\)/,
  )
})

test('livery ca test runs a module, relative to where it is called', async t => {
  const directory = temporaryFolder(t)
  await writePluginModule(directory)
  const { code, stdout } = await livery(['ca', 'test', './acme.mjs', '--identity', GOOD, '--parallel', '8'], {
    cwd: directory,
  })
  assert.equal(code, 0, stdout)
  assert.match(stdout, /0 failed/)
})
