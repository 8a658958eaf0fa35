/** "A first success in a minute" of the README: what it tells a reader to type, behind `npm start`, with real Envoys. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { parse } from 'yaml'
import { Command, shellEnvironment } from './command.ts'
import { noEnvoy, Pair, startAgent } from './envoy-bench.ts'
import { blocksOf, REPOSITORY, read } from './papers.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

/** The commands of the README that need the agent and both Envoys, with these in place of its ports. */
function commands(ports: Readonly<Record<string, number>>): string {
  const blocks = blocksOf('README.md', 'sh').filter(({ text }) => /^(?:curl -si|watch|npx livery certs)/.test(text))
  assert.equal(blocks.length, 3)
  const text = blocks.map(block => block.text).join('\n')
  // `watch` repeats it until somebody ends it.
  const once = text.replaceAll('npx livery', 'livery').replace(/^watch -n 5 "(.*)"$/m, '$1')
  return Object.entries(ports).reduce(
    (all, [port, own]) => all.replaceAll(`127.0.0.1:${port}`, `127.0.0.1:${own}`),
    once,
  )
}

test('the commands of the README show what it says', { skip: noEnvoy }, async t => {
  const cwd = temporaryFolder(t)
  const config: object = parse(read('livery.yaml').replaceAll('.livery/', ''))
  await using agent = await startAgent(cwd, { ...config, ttl: '60s' })
  const sockets = { web: join(cwd, 'run/web.sock'), api: join(cwd, 'run/api.sock') }
  await using pair = await Pair.start(cwd, sockets)
  await pair.live()
  const script = commands({ 15001: pair.port, 15100: agent.adminPort, 19002: pair.web.adminPort })
  const env = shellEnvironment(`${join(REPOSITORY, 'node_modules/.bin')}:${process.env['PATH']}`)
  await using shell = new Command('bash', ['-c', `set -e -o pipefail\n${script}`], { cwd, env })
  assert.equal(await shell.code(), 0, shell.output)
  const shown = [
    /^x-caller: spiffe:\/\/cluster\.local\/ns\/default\/sa\/web\r?$/m,
    /^x-caller-serial: [0-9a-f]+/m,
    /^hello from api$/m,
    /"serial_number": "[0-9a-f]+"[\s\S]*"uri": "spiffe:\/\/cluster\.local\/ns\/default\/sa\/web"/,
    /sa\/api +Available/,
    new RegExp(`${WEB}: Available`),
    /^same +ROOTCA$/m,
    /Nothing is wrong on this node/,
    /^livery_identities/m,
  ]
  for (const pattern of shown) assert.match(shell.output, pattern)
})
