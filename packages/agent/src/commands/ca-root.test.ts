/** `livery ca root` at a running `livery ca`: a rotation from the first step to the last, and what is refused. */
import assert from 'node:assert/strict'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess } from '../../test/livery-process.ts'
import { runInProcess } from '../../test/run-in-process.ts'
import type { ListedRoot } from './ca-root-socket.ts'

const CALLERS = '- { token: some-secret-of-web, identity: spiffe://cluster.local/ns/default/sa/web }\n'

/** A CA that serves on a free port. */
async function startCA(directory: string): Promise<LiveryProcess> {
  await writeFile(join(directory, 'tokens.yaml'), CALLERS)
  const args = ['ca', '--tokens', 'tokens.yaml', '--dir', 'ca', '--listen', '127.0.0.1:0']
  const process = new LiveryProcess(args, { cwd: directory })
  await process.line(/CA of cluster\.local on/)
  return process
}

function caRoot(workingDirectory: string, ...args: readonly string[]) {
  return runInProcess(['ca', 'root', ...args, '--dir', 'ca'], workingDirectory)
}

async function rootsAfter(directory: string, ...args: readonly string[]): Promise<readonly ListedRoot[]> {
  const { code, stdout, stderr } = await caRoot(directory, ...args, '--json')
  assert.deepEqual([code, stderr], [0, ''])
  return JSON.parse(stdout)
}

async function bundleOf(directory: string): Promise<number> {
  const text = await readFile(join(directory, 'ca/root.pem'), 'utf8')
  return text.split('BEGIN CERTIFICATE').length - 1
}

test('a root is added, signs, and the old one goes; the bundle of the CA follows', async t => {
  const directory = temporaryFolder(t)
  await using ca = await startCA(directory)
  const [old] = await rootsAfter(directory)
  assert.ok(old?.signing)

  const added = await rootsAfter(directory, 'add')
  assert.deepEqual(
    added.map(({ signing }) => signing),
    [true, false],
  )
  assert.equal(await bundleOf(directory), 2)

  const id = added[1]?.id ?? ''
  const switched = await rootsAfter(directory, 'switch', id.slice(0, 8))
  assert.deepEqual(
    switched.map(({ signing }) => signing),
    [false, true],
  )
  assert.deepEqual(
    (await rootsAfter(directory, 'remove', old.id)).map(root => root.id),
    [id],
  )
  assert.equal(await bundleOf(directory), 1)
  const { stdout } = await caRoot(directory)
  assert.match(stdout, new RegExp(`^${id} {2}signs {4}until 20\\d\\d-[^ ]+Z\n$`))
  assert.match(ca.stderr, /"msg":"a root was added: no certificate is under it yet"/)
})

test('only the owner of the CA reaches its socket', async t => {
  const directory = temporaryFolder(t)
  await using _ca = await startCA(directory)
  const { mode } = await stat(join(directory, 'ca/roots.sock'))
  assert.equal(mode & 0o777, 0o600)
})

test('a root that signs stays, and a fingerprint that names none or is too short is refused with those there are', async t => {
  const directory = temporaryFolder(t)
  await using _ca = await startCA(directory)
  const [root] = await rootsAfter(directory)
  assert.ok(root)
  const cases: readonly [readonly string[], number, RegExp][] = [
    [['remove', root.id], 1, /new certificates are signed under it\. Switch to another root first\./],
    [['switch', 'abcdef'], 2, new RegExp(`"abcdef" names no root of this CA alone\\. .* it has ${root.id}\\.`)],
    [['switch', root.id.slice(0, 5)], 2, /at least its first 6 digits/],
    [['switch'], 2, /missing required argument 'fingerprint'/],
    [['drop'], 2, /unknown command|too many arguments/],
  ]
  for (const [args, expected, message] of cases) {
    const { code, stdout, stderr } = await caRoot(directory, ...args)
    assert.deepEqual([code, stdout], [expected, ''], stderr)
    assert.match(stderr, message)
  }
  assert.deepEqual(await rootsAfter(directory), [root])
})

test('where no CA runs the command says how to start it', async t => {
  const { code, stderr } = await caRoot(temporaryFolder(t), 'add')
  assert.equal(code, 1)
  assert.match(
    stderr,
    /ca\/roots\.sock: nothing listens there\. Start it with "livery ca --dir .*ca", or name its folder/,
  )
})

test('a second CA in the same folder serves, and says that its roots cannot be reached', async t => {
  const directory = temporaryFolder(t)
  await using _first = await startCA(directory)
  await using second = await startCA(directory)
  assert.match(second.stderr, /\\"livery ca root\\" cannot reach this CA\. .*roots\.sock/)
})
