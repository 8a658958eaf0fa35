import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { load } from '../../test/config-file.ts'
import { unusableCAFiles } from './unusable-files.ts'

test('the roots that are missing are listed for each CA, and a CA without files has none', async t => {
  const absent = join(temporaryFolder(t), 'absent.pem')
  const member = `plugin: citadel, address: "ca:1", tokenFile: token, rootCert`
  const { config } = await load(`ca: { plugin: failover, cas: [{ ${member}: ${absent} }, { ${member}: system }] }
identities: [{ id: spiffe://cluster.local/a, socket: a.sock }]`)
  const [warning, ...others] = await unusableCAFiles(config.ca)
  assert.match(warning ?? '', /^ca: Cannot read the CA's root .*absent\.pem: ENOENT.* The agent reads it/)
  assert.deepEqual(others, [])
})
