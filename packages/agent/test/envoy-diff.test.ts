/** `livery diff` with a real Envoy: the same, then an agent that holds another certificate and other roots. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import type { Compared } from '../src/commands/diff.ts'
import { noEnvoy, Pair, startAgent } from './envoy-bench.ts'
import { livery } from './livery-process.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

function workloads(): object {
  return {
    trustDomain: 'cluster.local',
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [
      { id: WEB, socket: 'run/web.sock' },
      { id: API, socket: 'run/api.sock' },
    ],
  }
}

for (const delta of [false, true])
  test(`what an Envoy has over ${delta ? 'Delta' : 'state of the world'} is compared with its agent, and with another one`, {
    skip: noEnvoy,
  }, async t => {
    const folder = temporaryFolder(t)
    const other = temporaryFolder(t)
    await using agent = await startAgent(folder, workloads())
    const sockets = { web: join(folder, 'run/web.sock'), api: join(folder, 'run/api.sock') }
    await using pair = await Pair.start(folder, sockets, { delta })
    await pair.live()
    const diff = async (cwd: string, adminPort: number) => {
      const envoy = `http://127.0.0.1:${pair.web.adminPort}/`
      const args = ['diff', '--envoy-admin', envoy, '--json', '--admin', `127.0.0.1:${adminPort}`]
      const { code, stdout, stderr } = await livery(args, { cwd })
      assert.equal(stderr, '')
      assert.doesNotMatch(stdout, /PRIVATE KEY/)
      const compared: readonly Compared[] = JSON.parse(stdout)
      return { code, compared: compared.toSorted((a, b) => (a.name < b.name ? -1 : 1)) }
    }
    assert.deepEqual(await diff(folder, agent.adminPort), {
      code: 0,
      compared: [
        { name: 'ROOTCA', state: 'same' },
        { name: 'default', state: 'same', identity: WEB },
      ],
    })

    await using stranger = await startAgent(other, workloads())
    const { code, compared } = await diff(other, stranger.adminPort)
    assert.equal(code, 1)
    const [roots, certificate] = compared
    assert.deepEqual([roots?.state, certificate?.state, certificate?.identity], ['other', 'other', WEB])
    assert.match(
      roots?.detail ?? '',
      /^Envoy lacks the root [0-9a-f]{16} of cluster\.local; Envoy trusts the root [0-9a-f]{16}, which the agent does not hold/,
    )
    assert.match(
      certificate?.detail ?? '',
      /^Envoy serves serial [0-9a-f]+, which ends .*; the agent holds serial [0-9a-f]+, which ends .*livery streams/,
    )
  })

test('an Envoy that waits for its secrets, and a program that is no Envoy', { skip: noEnvoy }, async t => {
  const folder = temporaryFolder(t)
  await using agent = await startAgent(folder, workloads())
  const nowhere = join(folder, 'run/nobody.sock')
  await using pair = await Pair.start(folder, { web: nowhere, api: nowhere })
  const admin = ['--admin', `127.0.0.1:${agent.adminPort}`]
  const waiting = await livery(['diff', '--envoy-admin', `127.0.0.1:${pair.web.adminPort}`, ...admin], {
    cwd: folder,
  })
  assert.equal(waiting.code, 1)
  assert.match(
    waiting.stdout,
    /^waiting {2}default\n {2}Envoy has asked and has no answer\. Look at: livery streams default$/m,
  )

  const itself = await livery(['diff', '--envoy-admin', `127.0.0.1:${agent.adminPort}`, ...admin], { cwd: folder })
  assert.deepEqual([itself.code, itself.stdout], [1, ''])
  assert.match(itself.stderr, /has no secret from SDS|is not an Envoy/)
  const wrong = await livery(['diff', '--envoy-admin', 'https://x', ...admin], { cwd: folder })
  assert.equal(wrong.code, 2)
  assert.match(wrong.stderr, /--envoy-admin "https:\/\/x" is not the address/)
})
