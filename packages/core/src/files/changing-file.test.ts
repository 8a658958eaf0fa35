/** Small files that change at the worst moment. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmod, chown, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { listening, temporaryFolder } from '@livery/test-support'
import { ChangingFile, readSmallFile } from './changing-file.ts'

// Its reported size is 0, so it has always grown when it is read.
const GROWING = '/proc/self/status'
const skip = process.platform === 'linux' ? false : `needs ${GROWING}`

test('a file that grows while it is read is an error for the reader, not an uncaught exception', {
  skip,
}, async () => {
  for (let round = 0; round < 20; round++) {
    await assert.rejects(readSmallFile(GROWING, 4096), /it changed while it was read/)
    await assert.rejects(new ChangingFile(GROWING, 4096).read(), /it changed while it was read/)
  }
})

test('a file that others can write to, or replace, is not read, nor is a later content of it', async t => {
  const folder = temporaryFolder(t)
  const path = join(folder, 'token')
  await writeFile(path, 'ours')
  const file = new ChangingFile(path, 100)
  assert.equal(String(await file.read()), 'ours')
  const refused = (reason: RegExp) =>
    Promise.all([
      assert.rejects(readSmallFile(path, 100), reason),
      assert.rejects(new ChangingFile(path, 100).read(), reason),
    ])
  await chmod(path, 0o666)
  await refused(/token \(mode 0666, owner \d+:\d+\) can be written by others/)
  await assert.rejects(file.read(), /can be written by others/)
  await chmod(path, 0o644)
  await chmod(folder, 0o777)
  await refused(/\(mode 0777, owner \d+:\d+\) can be written by others, who can replace .*token/)
  await chmod(folder, 0o700)
  assert.equal(String(await file.read()), 'ours')
})

test('a file that another user has put into a sticky folder is not read', {
  skip: process.geteuid?.() !== 0 && 'only root can give files away',
}, async t => {
  const folder = temporaryFolder(t)
  await chmod(folder, 0o1777)
  const path = join(folder, 'token')
  await writeFile(path, 'planted')
  assert.equal(String(await readSmallFile(path, 100)), 'planted', 'as long as it is ours')
  await chown(path, 65_534, 65_534)
  await assert.rejects(readSmallFile(path, 100), /was put there by another user/)
})

test('what is not a regular file is not opened: a device acts when it is, and a socket would be an error of the system', async t => {
  const path = join(temporaryFolder(t), 'socket')
  await using _server = await listening(createServer(), path)
  await assert.rejects(readSmallFile(path, 1_000), /^Error: it is not a regular file$/)
  await assert.rejects(new ChangingFile(path, 1_000).read(), /^Error: it is not a regular file$/)
})

const READ_AND_SWAP = `
  import { symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
  import { readSmallFile } from ${JSON.stringify(new URL('changing-file.ts', import.meta.url))}
  const [path, other] = process.argv.slice(1)
  writeFileSync(path, 'mine', { mode: 0o200 })
  const swap = async () => {
    unlinkSync(path)
    symlinkSync(other, path)
  }
  await readSmallFile(path, 100, swap).catch(error => console.log(error.code + ' ' + error.message))
`

test('a file that cannot be read is not opened by its path, where something else can be by then', {
  skip: process.geteuid?.() !== 0 && 'only root can run a process as another user',
}, async t => {
  const folder = temporaryFolder(t)
  await chown(folder, 65_534, 65_534)
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', ['-m', '0666', pipe])
  const args = ['--conditions=@livery/source', '--input-type=module-typescript', '-e', READ_AND_SWAP]
  const path = join(folder, 'token')
  const printed = execFileSync(process.execPath, [...args, path, pipe], { uid: 65_534, gid: 65_534, encoding: 'utf8' })
  assert.equal(printed, `EACCES EACCES: permission denied, open '${path}'\n`)
})
