import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeDirectory } from '../../test/livery-process.ts'
import { loadConfig } from '../config/load.ts'
import { sdsSockets, shareOnDemand } from './sds-sockets.ts'

test('a caller gets half of the room that the listed identities leave, unless the configuration says how much', async () => {
  await using directory = await makeDirectory()
  const file = join(directory.path, 'livery.yaml')
  const config = {
    ca: { plugin: 'embedded' },
    identities: [{ range: 'spiffe://cluster.local/sa-{0..300}' }],
    maxIdentities: 600,
    sockets: [{ path: 'a.sock' }, { path: 'b.sock', limits: { perCaller: { identities: 7 } } }],
  }
  await writeFile(file, JSON.stringify(config))
  const { config: loaded } = await loadConfig({
    file,
    environment: {},
    workingDirectory: directory.path,
    terminal: false,
  })
  assert.deepEqual(
    sdsSockets(loaded, shareOnDemand(loaded)).map(({ limits }) => limits?.perCaller?.identities),
    [150, 7],
  )
})
