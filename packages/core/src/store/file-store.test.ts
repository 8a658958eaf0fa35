import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { hash, X509Certificate } from 'node:crypto'
import { chmod, chown, cp, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasTool } from '../../test/has-tool.ts'
import { Restarts } from '../../test/restarts.ts'
import { StoreError } from '../contract/store.ts'
import { shareFolders } from '../files/trusted-path.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { privateKeyOf } from '../testing/reveal-key.ts'
import { FileStore } from './file-store.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const isRoot = process.geteuid?.() === 0
const OTHER_UID = 65_534

const open = (directory: string) => FileStore.open({ directory, trustDomain: 'cluster.local', clock: new FakeClock() })

async function fileOf(restarts: Restarts, identity: SpiffeId): Promise<string> {
  for (const file of await restarts.files()) if ((await readFile(file, 'utf8')).includes(`"${identity}"`)) return file
  return assert.fail(`nothing is stored of ${identity}`)
}

test('the directory has mode 0700 and its files 0600, whatever the umask, and no file name shows an identity', async () => {
  for (const umask of [0, 0o777]) {
    await using restarts = await Restarts.create()
    const before = process.umask(umask)
    try {
      await restarts.runOnce(WEB)
    } finally {
      process.umask(before)
    }
    assert.equal((await stat(restarts.directory)).mode & 0o777, 0o700)
    const names = await readdir(restarts.directory)
    assert.equal(names.length, 2)
    for (const name of names) {
      assert.equal((await stat(join(restarts.directory, name))).mode & 0o777, 0o600)
      assert.match(name, /^[0-9a-f]{64}\.(roots\.)?pem$/)
    }
  }
})

test('openssl reads the key and the certificate of a stored file', {
  skip: !hasTool('openssl') && 'no openssl',
}, async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  const file = await fileOf(restarts, WEB)
  const openssl = (...args: readonly string[]) => execFileSync('openssl', [...args, '-in', file], { encoding: 'utf8' })
  assert.equal(openssl('pkey', '-pubout'), openssl('x509', '-noout', '-pubkey'))
})

function withBody(body: string): string {
  return `livery-store/1 certificate ${hash('sha256', body)}\n${body}`
}

/** The possible damage to a file, and the message for it. */
const damages: readonly (readonly [string, RegExp, (file: string, other: string) => Promise<void>])[] = [
  ['emptied', /is not in the form livery-store\/1/, file => writeFile(file, '')],
  ['cut short', /is cut short or was changed/, async file => writeFile(file, (await readFile(file)).subarray(0, -200))],
  [
    'changed in one byte of its key',
    /is cut short or was changed/,
    async file => writeFile(file, (await readFile(file, 'latin1')).replace('MIG', 'MIH')),
  ],
  ['of another version', /another version or another program wrote it/, file => replaceIn(file, 'store/1', 'store/2')],
  [
    'a key where its facts should be',
    /has no facts that can be read/,
    file => writeFile(file, withBody('PRIVATE KEY\n')),
  ],
  ['that of another identity', /is of another identity/, async (file, other) => rename(other, file)],
  ['a symbolic link', /is a symbolic link/, async (file, other) => rm(file).then(() => symlink(other, file))],
  ['a directory', /is not a regular file/, file => rm(file).then(() => mkdir(file))],
  ['a pipe', /is not a regular file/, makePipe],
  ['readable by others', /can be read by others \(mode 0640\): its key may be known/, file => chmod(file, 0o640)],
  ['writable by others', /can be written by others \(mode 0620\)/, file => chmod(file, 0o620)],
  ['very large', /is 300000 bytes, more than 262144/, file => writeFile(file, Buffer.alloc(300_000))],
  ['gone', /./, file => rm(file)],
]
for (const [what, reason, damage] of damages)
  test(`a stored file that is ${what} is never served: the CA is asked, and the ledger says why`, async () => {
    await using restarts = await Restarts.create()
    await restarts.runOnce(WEB, API)
    await damage(await fileOf(restarts, WEB), await fileOf(restarts, API))
    restarts.ca.requests.length = 0
    {
      await using run = await restarts.start()
      await run.bench.add(WEB)
      assert.deepEqual(
        restarts.ca.requests.map(({ identity }) => identity),
        [WEB],
      )
      if (what !== 'gone') {
        const told = run.bench.last('not-restored').reason
        assert.match(told, reason)
        assert.ok(told.includes(restarts.directory))
        assert.doesNotMatch(told, /PRIVATE/)
      }
    }
    if (what === 'a directory') return
    await using again = await restarts.start()
    await again.bench.add(WEB)
    assert.equal(restarts.ca.requests.length, 1, 'the new one has taken its place')
  })

test('a stored file of another user is not served', { skip: !isRoot && 'only root can give files away' }, async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  await chown(await fileOf(restarts, WEB), OTHER_UID, 0)
  await using run = await restarts.start()
  await run.bench.add(WEB)
  assert.match(run.bench.last('not-restored').reason, /belongs to uid 65534, not to 0/)
})

test('a key with the certificate of another is not served, though the file is whole', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB, API)
  const store = await open(restarts.directory)
  const [web, api] = [await store.read(WEB), await store.read(API)]
  assert.ok(web && api)
  store.put(WEB, { ...web, privateKey: api.privateKey })
  store.put(API, { ...web })
  await store[Symbol.asyncDispose]()
  await using run = await restarts.start()
  await run.bench.add(WEB)
  assert.match(run.bench.last('not-restored').reason, /private key that came with it belongs to another certificate/)
  await run.bench.add(API)
  assert.match(run.bench.last('not-restored').reason, /instead of the identity asked for/)
})

test('a pair of another CA is not served', async () => {
  await using restarts = await Restarts.create()
  await using foreign = await Restarts.create()
  await restarts.runOnce(WEB)
  await foreign.runOnce(WEB)
  await cp(await fileOf(foreign, WEB), await fileOf(restarts, WEB))
  await using run = await restarts.start()
  await run.bench.add(WEB)
  assert.match(run.bench.last('not-restored').reason, /does not lead to the one known root/)
})

const refusals: readonly (readonly [string, RegExp, (path: string) => Promise<unknown>])[] = [
  [
    'others can write to',
    /\(mode 0777, owner \d+:\d+\) can be written by others\. Run: chmod go-w/,
    path => makeWith(path, 0o777),
  ],
  ['everybody can write to, sticky or not', /mode 1777/, path => makeWith(path, 0o1777)],
  ['is a file', /is not a directory\. Name another path/, path => writeFile(path, '')],
]
for (const [what, reason, make] of refusals)
  test(`a directory that ${what} is refused with the remedy`, async () => {
    await using restarts = await Restarts.create()
    await make(restarts.directory)
    await assert.rejects(open(restarts.directory), (error: unknown) => {
      assert.ok(error instanceof StoreError)
      assert.equal(error.code, 'unusable-directory')
      assert.match(error.message, reason)
      return true
    })
  })

for (const mode of [0o755, 0o750, 0o711, 0o704])
  test(`a directory of mode 0${mode.toString(8)} is closed to others, which a warning says`, async () => {
    await using restarts = await Restarts.create()
    await makeWith(restarts.directory, mode)
    const store = await open(restarts.directory)
    await store[Symbol.asyncDispose]()
    assert.equal((await stat(restarts.directory)).mode & 0o7777, 0o700)
    assert.deepEqual(store.warnings, [
      `${restarts.directory} had mode 0${mode.toString(8)}, which let others look into it: it has mode 0700 now`,
    ])
  })

test('a directory below one that others can write to is refused: they could replace it', async () => {
  await using restarts = await Restarts.create()
  await makeWith(restarts.directory, 0o777)
  const directory = join(restarts.directory, 'state')
  await assert.rejects(open(directory), (error: unknown) => {
    assert.ok(error instanceof StoreError && error.code === 'unusable-directory')
    assert.match(error.message, /can be written by others, who can replace .*state\. Run: chmod go-w/)
    return true
  })
  assert.deepEqual(await readdir(restarts.directory), [])
})

test('a store may be below a shared folder, but not the folder itself', async t => {
  await using restarts = await Restarts.create()
  await makeWith(restarts.directory, 0o777)
  shareFolders([restarts.directory])
  t.after(() => shareFolders([]))
  const directory = join(restarts.directory, 'state')
  await (await open(directory))[Symbol.asyncDispose]()
  assert.equal((await stat(directory)).mode & 0o7777, 0o700)
  await assert.rejects(
    open(restarts.directory),
    /everybody can write to it \(mode 0777\)\. Use a separate folder below/,
  )
})

test('a directory that cannot be made is refused with the reason', async () => {
  await assert.rejects(
    open('/proc/livery/store'),
    /ENOENT, no such file or directory\. Name a directory that this user/,
  )
})

test('a directory of another user, and one below it, is refused', {
  skip: !isRoot && 'only root can give files away',
}, async () => {
  await using restarts = await Restarts.create()
  await makeWith(restarts.directory, 0o700)
  await chown(restarts.directory, OTHER_UID, 0)
  const refusal = /belongs to uid 65534, and this process runs as 0\. Run: chown 0 /
  for (const directory of [restarts.directory, join(restarts.directory, 'state')])
    await assert.rejects(open(directory), refusal)
})

test('files that others put there are left alone', async () => {
  await using restarts = await Restarts.create()
  await makeWith(restarts.directory, 0o755)
  await writeFile(join(restarts.directory, 'notes.txt'), 'mine')
  const store = await open(restarts.directory)
  store.forgetUntaken()
  await store[Symbol.asyncDispose]()
  assert.deepEqual(await readdir(restarts.directory), ['notes.txt'])
})

test('a restored certificate is the one that was served, to the byte', async () => {
  await using restarts = await Restarts.create()
  let before: { readonly chain: string; readonly key: string }
  {
    await using run = await restarts.start()
    const item = await run.bench.add(WEB)
    before = { chain: text(item.certificateChain), key: text(privateKeyOf(item)) }
  }
  await using run = await restarts.start()
  const item = await run.bench.add(WEB)
  assert.deepEqual({ chain: text(item.certificateChain), key: text(privateKeyOf(item)) }, before)
  assert.equal(new X509Certificate(item.certificateChain).subjectAltName, `URI:${WEB}`)
})

async function makePipe(file: string): Promise<void> {
  await rm(file)
  execFileSync('mkfifo', ['-m', '600', file])
}

async function makeWith(path: string, mode: number): Promise<void> {
  await mkdir(path)
  await chmod(path, mode)
}

async function replaceIn(file: string, from: string, to: string): Promise<void> {
  await writeFile(file, (await readFile(file, 'latin1')).replace(from, to))
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString()
}
