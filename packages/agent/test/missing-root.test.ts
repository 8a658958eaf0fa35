/** `livery run` whose file with the CA's root is missing: a fault of this node, and nothing that is said of the CA. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess } from './livery-process.ts'

test('a missing root file is a fault of the node: the log does not say that the CA does not answer', async t => {
  const cwd = temporaryFolder(t)
  const config = {
    ca: { plugin: 'citadel', address: '127.0.0.1:1', rootCert: 'missing.pem', tokenFile: 'token' },
    identities: ['a', 'b', 'c'].map(name => `spiffe://cluster.local/${name}`),
    sockets: [{ path: 'sds.sock', allow: ['spiffe://cluster.local/**'] }],
    admin: { address: '127.0.0.1:0' },
    drain: '100ms',
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  await writeFile(join(cwd, 'token'), 'a-token-of-this-node', { mode: 0o600 })
  await using agent = new LiveryProcess(['run'], { cwd })
  const shared: { readonly event: string; readonly failure: string; readonly msg: string } = JSON.parse(
    await agent.line(/"event":"(?:ca-down|shared-failure)"/),
  )
  assert.deepEqual([shared.event, shared.failure], ['shared-failure', 'local unavailable'])
  assert.match(await agent.line(/"event":"ca-error".*\/a"/), /this node could not ask the CA.*missing\.pem: ENOENT/)
})
