/** The list of tokens as a file that changes. */
import assert from 'node:assert/strict'
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { TokenGrantsFile } from './token-grants.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const web = { token: 'hush-web', identity: WEB }
const api = { token: 'hush-api', identity: API, impersonates: [WEB] }

async function makeFile(t: TestContext, ...grants: readonly object[]) {
  const directory = temporaryFolder(t)
  const path = join(directory, 'tokens.yaml')
  const write = (text: string) => writeFile(path, text, { mode: 0o600 })
  await write(JSON.stringify(grants))
  const warnings: string[] = []
  return { path, write, warnings, file: () => TokenGrantsFile.open(path, message => void warnings.push(message)) }
}

test('a token that is taken out of the file, or put into it, counts from the next call on', async t => {
  const { path, write, file } = await makeFile(t, web, api)
  const { current } = await file()
  assert.deepEqual(await current(), [web, api])
  assert.equal(await current(), await current())
  await write(JSON.stringify([api]))
  assert.deepEqual(await current(), [api])
  await writeFile(`${path}.new`, JSON.stringify([web]), { mode: 0o600 })
  await rename(`${path}.new`, path)
  assert.deepEqual(await current(), [web])
})

test('an unusable file admits nobody and causes one warning, which shows no token', async t => {
  const { path, write, warnings, file } = await makeFile(t, web)
  const { current } = await file()
  for (const text of [
    '[{ token: hush-web',
    JSON.stringify([web, web]),
    JSON.stringify([{ token: 'hush-web' }]),
    JSON.stringify([{ ...web, token: 'hus' }]),
  ]) {
    warnings.length = 0
    await write(text)
    assert.deepEqual([await current(), await current()], [[], []])
    assert.equal(warnings.length, 1)
    assert.match(warnings[0] ?? '', /Every token is refused until .*tokens\.yaml can be used/)
    assert.doesNotMatch(warnings[0] ?? '', /hus/)
  }
  await rm(path)
  assert.deepEqual(await current(), [])
  await write(JSON.stringify([web]))
  assert.deepEqual(await current(), [web])
})

test('a file with a repeated token is refused at the start, without the token', async t => {
  const { file } = await makeFile(t, web, { token: 'hush-web', identity: API })
  await assert.rejects(
    file(),
    (error: Error) => /another caller has it too/.test(error.message) && !/hush/.test(error.message),
  )
})

test('the identities that tokens may ask for are bounded over all grants', async t => {
  const grant = (index: number) => ({
    token: `hush-${index}`,
    identity: 'spiffe://cluster.local/node',
    impersonates: [`spiffe://cluster.local/${index}/{0..59999}`],
  })
  const { write, file } = await makeFile(t, grant(0))
  assert.equal((await (await file()).current())[0]?.impersonates?.length, 60_000)
  await write(JSON.stringify([grant(0), grant(1)]))
  await assert.rejects(file(), /\[1\]\.impersonates\[0\]: .*is not a range/)
})
