/** `livery run` with a CA that refuses one identity: the endpoints and commands show the failing renewal before the certificate ends. */
import assert from 'node:assert/strict'
import { unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import type { ConfigDump, DumpedIdentity } from '../src/admin/config-dump.ts'
import type { ListedIdentity } from '../src/commands/listed-certificates.ts'
import { LiveryProcess, livery } from './livery-process.ts'
import { writePluginModule } from './plugin-module.ts'
import { fetchSecrets } from './sds-client.ts'

const GOOD = 'spiffe://cluster.local/good'
const BAD = 'spiffe://cluster.local/bad'
const TEXT = 'Cannot issue: this workload is not registered. Register it.'

const TOKEN = 'a-token-of-the-operator'

const issued = (identity: string) => new RegExp(`"event":"issued","resource":"${identity}"`)

test('a CA that refuses one identity is seen in the dump, the commands, readiness and metrics, until it issues again', async t => {
  const cwd = temporaryFolder(t)
  await writePluginModule(cwd, {
    onIssue: `if (request.identity.endsWith('bad') && existsSync(folder + '/refused')) throw new CAError('denied', '${TEXT}')`,
  })
  await writeFile(join(cwd, 'admin.token'), TOKEN, { mode: 0o600 })
  const config = {
    ca: { plugin: './acme.mjs' },
    identities: [GOOD, { id: BAD, socket: 'bad.sock' }],
    sockets: [{ path: 'sds.sock', allow: [GOOD] }],
    admin: { address: '127.0.0.1:0', tokenFile: 'admin.token' },
    drain: '200ms',
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  await using agent = new LiveryProcess(['run'], { cwd })
  const admin = await agent.admin()
  await Promise.all([agent.line(issued(GOOD)), agent.line(issued(BAD))])
  const [before] = await fetchSecrets(join(cwd, 'bad.sock'), ['default'])

  await writeFile(join(cwd, 'refused'), '')
  assert.equal(await renew(admin, BAD), 202)
  const line: { readonly level: string; readonly code: string } = JSON.parse(
    await agent.line(new RegExp(`"event":"ca-error","resource":"${BAD}"`)),
  )
  assert.deepEqual([line.level, line.code], ['warn', 'denied'])
  assert.match(await agent.line(/"event":"renewal-requested"/), /"level":"info"/)

  const dumped = await dumpOf(admin, BAD)
  const { since = '', nextTry = '', remainingSeconds = 0, ...failure } = dumped.lastFailure ?? assert.fail()
  assert.deepEqual([dumped.state, dumped.certChain.length, failure], ['Failing', 1, { code: 'denied', text: TEXT }])
  assert.ok(Date.parse(since) < Date.parse(nextTry) && nextTry === dumped.renewAt)
  assert.ok(remainingSeconds > 23 * 3_600 && remainingSeconds <= 24 * 3_600)
  const good = await dumpOf(admin, GOOD)
  assert.deepEqual([good.state, good.lastFailure], ['Available', undefined])

  const listed = await livery(['certs', '--json', '--admin', admin], { cwd })
  const identities: readonly ListedIdentity[] = JSON.parse(listed.stdout)
  const bad = identities.find(({ identity }) => identity === BAD)
  assert.deepEqual([bad?.state, bad?.lastFailure?.text, bad?.lastFailure?.since], ['Failing', TEXT, since])
  assert.match((await livery(['certs', '--admin', admin], { cwd })).stdout, new RegExp(`${BAD} +Failing `))
  assert.match((await livery(['explain', BAD, '--admin', admin], { cwd })).stdout, new RegExp(`^${BAD}: Failing\n`))

  const ready = await fetch(`http://${admin}/healthz/ready?strict`)
  // It has failed for less than a minute.
  assert.equal(ready.status, 200)
  assert.match(await ready.text(), new RegExp(`renewals that fail, not counted:\n  ${BAD}: .*\\(denied\\): ${TEXT}`))
  const metrics = await (await fetch(`http://${admin}/metrics`)).text()
  assert.match(metrics, /^livery_identities_failing\{code="denied"\} 1$/m)
  assert.match(metrics, /^livery_identities\{state="failing"\} 1$/m)
  assert.match(metrics, /^livery_certificate_remaining_seconds_count 2$/m)
  const [meanwhile] = await fetchSecrets(join(cwd, 'bad.sock'), ['default'])
  assert.equal(meanwhile?.certificateChain, before?.certificateChain)

  await unlink(join(cwd, 'refused'))
  assert.equal(await renew(admin, BAD), 202)
  await agent.lines(issued(BAD), 2)
  const healed = await dumpOf(admin, BAD)
  assert.deepEqual([healed.state, healed.lastFailure], ['Available', undefined])
  assert.match(await (await fetch(`http://${admin}/metrics`)).text(), /^livery_identities_failing\{code="denied"\} 0$/m)
})

async function dumpOf(admin: string, identity: string): Promise<DumpedIdentity> {
  const { certificates }: ConfigDump = JSON.parse(await (await fetch(`http://${admin}/config_dump`)).text())
  return certificates.find(each => each.identity === identity) ?? assert.fail(`${identity} is not in the dump`)
}

/** As the operator. */
async function renew(admin: string, identity: string): Promise<number> {
  const url = `http://${admin}/renew?name=${encodeURIComponent(identity)}`
  const { status } = await fetch(url, { method: 'PUT', headers: { authorization: `Bearer ${TOKEN}` } })
  return status
}
