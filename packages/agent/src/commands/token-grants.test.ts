import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeDirectory } from '../../test/livery-process.ts'
import { readTokenGrants } from './token-grants.ts'

test('the identities that tokens may ask for are bounded over all grants', async () => {
  await using directory = await makeDirectory()
  const file = join(directory.path, 'tokens.yaml')
  const grant = (index: number) => ({
    token: `t${index}`,
    identity: 'spiffe://cluster.local/node',
    impersonates: [`spiffe://cluster.local/${index}/{0..59999}`],
  })
  await writeFile(file, JSON.stringify([grant(0)]))
  assert.equal((await readTokenGrants(file))[0]?.impersonates?.length, 60_000)
  await writeFile(file, JSON.stringify([grant(0), grant(1)]))
  await assert.rejects(readTokenGrants(file), /\[1\]\.impersonates\[0\]: .*is no range/)
})
