/** docs/run/runbook/calls-refused.md: two nodes whose CAs have different roots, and its commands, which show it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { Command, shellEnvironment } from './command.ts'
import { get, noEnvoy, Pair, startAgent, until } from './envoy-bench.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const page = readFileSync(join(root, 'docs/run/runbook/calls-refused.md'), 'utf8')

function workload(name: string): object {
  const id = `spiffe://cluster.local/ns/default/sa/${name}`
  return { trustDomain: 'cluster.local', ca: { plugin: 'embedded' }, identities: [{ id, socket: 'run/own.sock' }] }
}

/** The output of the commands of the page on the node whose agent runs in `cwd`, with its Envoy and that of the other node. */
async function follow(cwd: string, envoyPort: number, otherPort: number): Promise<string> {
  const commands = [...page.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block).join('')
  const env = shellEnvironment(`${join(root, 'node_modules/.bin')}:${process.env['PATH']}`)
  const ported = commands.replaceAll(':15000', `:${envoyPort}`).replaceAll(':15900', `:${otherPort}`)
  await using shell = new Command('bash', ['-c', ported], { cwd, env })
  await shell.ended
  return shell.output
}

test('an Envoy that another agent serves, and two nodes with different roots', { skip: noEnvoy }, async t => {
  const here = temporaryFolder(t)
  const there = temporaryFolder(t)
  await using _web = await startAgent(here, workload('web'))
  await using _api = await startAgent(there, workload('api'))
  const sockets = { web: join(here, 'run/own.sock'), api: join(there, 'run/own.sock') }
  await using pair = await Pair.start(here, sockets)
  await pair.live()
  await until('web refuses api', async () => ((await get(pair.port, '/')).status === 503 ? true : undefined))
  assert.ok((await pair.web.stat('cluster.api.ssl.fail_verify_error')) > 0)

  const web = await follow(here, pair.web.adminPort, pair.api.adminPort)
  const api = await follow(there, pair.api.adminPort, pair.web.adminPort)
  const fingerprint = (output: string) => /^ {2}([0-9a-f]{16}) {2}trusted/m.exec(output)?.[1]
  for (const output of [web, api]) {
    assert.match(output, /^same +ROOTCA$/m)
    assert.match(output, /sa\/(?:web|api) +Available/)
  }
  assert.notEqual(fingerprint(web), undefined)
  assert.notEqual(fingerprint(web), fingerprint(api))

  // The Envoy of api, as the operator of the first node sees it.
  assert.match(web, /^unknown +default +spiffe:\/\/cluster\.local\/ns\/default\/sa\/api$/m)
  assert.match(web, /trusts the root [0-9a-f]{16}, which the agent does not hold/)
})
