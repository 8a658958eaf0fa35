/** The store sealed with a key file: what is on disk, and what somebody can do to it who can write there. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { chmod, chown, cp, mkdir, readdir, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { listening } from '@livery/test-support'
import { Restarts } from '../../test/restarts.ts'
import { StoreError } from '../contract/store.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { FileStore } from './file-store.ts'
import { readStoreKey } from './store-key.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
/** Is in one index file with WEB. */
const NEAR = 'spiffe://cluster.local/ns/default/sa/web-1'
const isRoot = process.geteuid?.() === 0

const nameOf = (identity: SpiffeId) => `${hash('sha256', identity)}.sealed`
const rootsName = `${hash('sha256', 'spiffe://cluster.local')}.roots.sealed`
const indexOf = (identity: SpiffeId) => `index-${hash('sha256', identity)[0]}.sealed`

function open({ directory, keyFile, clock }: Restarts): Promise<FileStore> {
  return FileStore.open({ directory, trustDomain: 'cluster.local', clock, ...(keyFile !== undefined && { keyFile }) })
}

async function sealedRestarts(): Promise<Restarts> {
  const restarts = await Restarts.create()
  await restarts.seal()
  return restarts
}

/** Starts, takes both from the store or the CA, and returns what the CA was asked for. */
async function askedFor(restarts: Restarts): Promise<{ readonly asked: readonly SpiffeId[]; readonly told: string }> {
  restarts.ca.requests.length = 0
  await using run = await restarts.start()
  for (const identity of [WEB, API] as const) await run.bench.add(identity)
  const reasons = run.bench.events.flatMap(({ event }) => (event.kind === 'not-restored' ? [event.reason] : []))
  return {
    asked: restarts.ca.requests.map(({ identity }) => identity),
    told: [...run.store.warnings, ...reasons].join('\n'),
  }
}

const textsOn = async (directory: string) =>
  (await Promise.all((await readdir(directory)).map(name => readFile(join(directory, name), 'latin1')))).join('\n')

test('nothing of a key, a certificate, an identity or the roots is on disk in plain text, and all is served again', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(WEB, API)
  const texts = await textsOn(restarts.directory)
  assert.doesNotMatch(texts, /BEGIN|PRIVATE|CERTIFICATE|spiffe|cluster\.local/)
  for (const name of await readdir(restarts.directory))
    assert.equal((await stat(join(restarts.directory, name))).mode & 0o777, 0o600)
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
})

const OLD = 'is not the newest: an older copy was put in its place, or the index of the store was lost'
const BROKEN = 'was changed, is cut short, or is the file of another entry: its seal does not fit'

interface Damage {
  readonly what: string
  readonly reason: string
  readonly asked: readonly SpiffeId[]
  /** `older` has all files as they were before WEB and the roots were written again. */
  damage(directory: string, older: string): Promise<unknown>
}

const change = async (path: string, edit: (file: Buffer) => Buffer) => writeFile(path, edit(await readFile(path)))
const flip = (at: number) => (file: Buffer) => {
  const position = at < 0 ? file.length + at : at
  file[position] = (file[position] ?? 0) ^ 1
  return file
}

const damages: readonly Damage[] = [
  ...[100, -40, -1].map(
    (at): Damage => ({
      what: `an entry with another bit ${at < 0 ? 'in its ciphertext or tag' : 'in its salt'} at ${at}`,
      reason: BROKEN,
      asked: [WEB],
      damage: directory => change(join(directory, nameOf(WEB)), flip(at)),
    }),
  ),
  {
    what: 'an entry of a later version than it was sealed with',
    reason: BROKEN,
    asked: [WEB],
    damage: directory =>
      change(join(directory, nameOf(WEB)), file =>
        Buffer.from(
          file.toString('latin1').replace(/\d\n/, digit => `${(Number(digit[0]) + 1) % 10}\n`),
          'latin1',
        ),
      ),
  },
  {
    what: 'an entry that is cut short',
    reason: BROKEN,
    asked: [WEB],
    damage: directory => change(join(directory, nameOf(WEB)), file => file.subarray(0, -1)),
  },
  {
    what: 'an entry of a few bytes',
    reason: 'is cut short',
    asked: [WEB],
    damage: directory => change(join(directory, nameOf(WEB)), file => file.subarray(0, 60)),
  },
  {
    what: 'an entry that is emptied',
    reason: 'is not in the form livery-sealed/1',
    asked: [WEB],
    damage: directory => writeFile(join(directory, nameOf(WEB)), ''),
  },
  {
    what: 'two entries that are swapped',
    reason: BROKEN,
    asked: [WEB, API],
    async damage(directory) {
      const [web, api, aside] = [nameOf(WEB), nameOf(API), 'aside'].map(name => join(directory, name))
      assert.ok(web && api && aside)
      for (const [from, to] of [
        [web, aside],
        [api, web],
        [aside, api],
      ] as const)
        await rename(from, to)
    },
  },
  {
    what: 'an older entry put back',
    reason: OLD,
    asked: [WEB],
    damage: (directory, older) => cp(join(older, nameOf(WEB)), join(directory, nameOf(WEB))),
  },
  {
    what: 'older roots put back',
    reason: OLD,
    asked: [],
    damage: (directory, older) => cp(join(older, rootsName), join(directory, rootsName)),
  },
  {
    what: 'an index that is gone',
    reason: OLD,
    asked: [WEB],
    damage: directory => rm(join(directory, indexOf(WEB))),
  },
  {
    what: 'an index with another bit',
    reason: OLD,
    asked: [WEB],
    damage: directory => change(join(directory, indexOf(WEB)), flip(-1)),
  },
  {
    what: 'an entry in plain text beside the sealed one',
    reason: 'what was in it in plain text is not used, and removed',
    asked: [],
    damage: directory => writeFile(join(directory, nameOf(WEB).replace('sealed', 'pem')), 'planted', { mode: 0o600 }),
  },
]

/** A later version of WEB, and of the roots. */
async function writeAgain(restarts: Restarts, ...others: readonly SpiffeId[]): Promise<void> {
  await using store = await open(restarts)
  for (const identity of others) await store.read(identity)
  const web = await store.read(WEB)
  assert.ok(web)
  store.put(WEB, web)
  store.putRoots(store.roots)
}

for (const { what, reason, asked, damage } of damages)
  test(`${what}: that alone is not used, which is said, and the CA is asked`, async () => {
    await using restarts = await sealedRestarts()
    const older = join(restarts.path, 'older')
    await restarts.runOnce(WEB, API)
    await cp(restarts.directory, older, { recursive: true })
    await writeAgain(restarts)
    await damage(restarts.directory, older)
    await restarts.clock.advance(1_000)
    const found = await askedFor(restarts)
    assert.ok(found.told.includes(reason), found.told)
    assert.ok(found.told.includes(restarts.directory))
    assert.deepEqual(found.asked, asked)
    assert.deepEqual(await askedFor(restarts), { asked: [], told: '' }, 'what is new has taken its place')
  })

test('a store in plain text is sealed at the first start, and nothing of it is left in plain text or asked for', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB, API)
  await restarts.seal()
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
  assert.doesNotMatch(await textsOn(restarts.directory), /PRIVATE|CERTIFICATE/)
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
})

test('a first start that was ended half way is made again: plain files go only once the sealed ones are on disk', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB, API)
  await restarts.seal()
  for (const name of [nameOf(WEB), indexOf(WEB)]) {
    await mkdir(join(restarts.directory, name))
    await assert.rejects(
      open(restarts),
      /^StoreError: Cannot seal the store in .*: EISDIR, .* It stays as it was, in plain text\./,
    )
    assert.equal((await readdir(restarts.directory)).filter(name => name.endsWith('.pem')).length, 3)
    await rmdir(join(restarts.directory, name))
  }
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
})

test('a store that another process has is not sealed, and nothing in it is removed', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  const { directory, clock } = restarts
  // The other process is about to rename it.
  await writeFile(join(directory, `${hash('sha256', WEB)}.pem.0123456789ab.tmp`), 'half')
  const before = await textsOn(directory)
  await restarts.seal()
  const { keyFile = '' } = restarts
  const own = () => Promise.reject(new Error('another process has it'))
  await assert.rejects(
    FileStore.open({ directory, trustDomain: 'cluster.local', clock, keyFile, own }),
    /another process/,
  )
  assert.equal(await textsOn(directory), before)
})

test('a plain file that others could read is not sealed', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB, API)
  await restarts.seal()
  await chmod(join(restarts.directory, nameOf(WEB).replace('sealed', 'pem')), 0o644)
  const { asked, told } = await askedFor(restarts)
  assert.match(told, /can be read by others \(mode 0644\): its key may be known/)
  assert.deepEqual(asked, [WEB])
  assert.doesNotMatch(await textsOn(restarts.directory), /PRIVATE/)
})

test('a store that was sealed with another key is refused with the remedy, and stays as it is', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(WEB, API)
  const before = await textsOn(restarts.directory)
  await restarts.seal(8)
  await assert.rejects(open(restarts), (error: unknown) => {
    assert.ok(error instanceof StoreError && error.code === 'unusable-directory')
    assert.match(
      error.message,
      /^Cannot use the store in .*store: .*store\.sealed is sealed with another key than store\.keyFile has\. Put the former key back; or, to have the CA asked for every identity, remove .*store\.$/,
    )
    return true
  })
  assert.equal(await textsOn(restarts.directory), before)
  await restarts.seal()
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
})

test('without the key a sealed store stays as it is, which a warning says, and is used again with it', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(WEB, API)
  const { keyFile } = restarts
  restarts.keyFile = undefined
  {
    await using store = await open(restarts)
    store.forgetUntaken()
    assert.deepEqual(store.warnings, [
      `${restarts.directory} is sealed, and its entries are not used: store.keyFile is not set`,
    ])
  }
  restarts.keyFile = keyFile
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
})

test('an agent that gets its store back loses nothing that its successor or itself has written', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(WEB, API)
  {
    await using first = await open(restarts)
    const web = await first.read(WEB)
    assert.ok(web)
    await first.release()
    {
      await using successor = await open(restarts)
      successor.put(NEAR, web)
    }
    first.reclaim()
    first.put(WEB, web)
  }
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
  await using store = await open(restarts)
  assert.ok(await store.read(NEAR))
})

test('an entry that was removed is not taken again when a copy of it is put back', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(WEB, API)
  const path = join(restarts.directory, nameOf(WEB))
  const copy = await readFile(path)
  {
    await using store = await open(restarts)
    store.forget(WEB)
  }
  await writeFile(path, copy, { mode: 0o600 })
  const { asked, told } = await askedFor(restarts)
  assert.deepEqual(asked, [WEB])
  assert.ok(told.includes(OLD))
})

test('while the disk does not give an index, its entries are not read and not written, and nothing is lost', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(WEB, NEAR)
  const path = join(restarts.directory, indexOf(WEB))
  await rename(path, `${path}.away`)
  {
    // Opening a socket is a system error, like a disk's.
    await using server = await listening(createServer(), path)
    await using store = await open(restarts)
    await assert.rejects(store.read(NEAR), /index-.\.sealed cannot be read: ENXIO/)
    await rename(`${path}.away`, path)
    const near = await store.read(NEAR)
    assert.ok(near)
    store.put(NEAR, near)
    server.close()
  }
  await using store = await open(restarts)
  assert.ok(await store.read(WEB))
  assert.ok(await store.read(NEAR))
  assert.deepEqual(await askedFor(restarts), { asked: [API], told: '' })
})

test('entries of a batch whose index was not written before the process ended are used, in whatever order', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(API)
  const path = join(restarts.directory, indexOf(WEB))
  const index = await readFile(path)
  await restarts.runOnce(NEAR, WEB)
  await writeFile(path, index)
  for (const identities of [[WEB, NEAR] as const, [NEAR, WEB] as const]) {
    await using store = await open(restarts)
    for (const identity of identities) assert.ok(await store.read(identity))
  }
  const older = await readFile(join(restarts.directory, nameOf(WEB)))
  await writeAgain(restarts, NEAR)
  {
    await using store = await open(restarts)
    assert.ok(await store.read(NEAR), 'the next index lists them')
  }
  await writeFile(join(restarts.directory, nameOf(WEB)), older)
  assert.ok((await askedFor(restarts)).told.includes(OLD))
})

test('an entry whose index was not written before the process ended is used', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(WEB, API)
  const index = await readFile(join(restarts.directory, indexOf(WEB)))
  await writeAgain(restarts)
  await writeFile(join(restarts.directory, indexOf(WEB)), index)
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
})

const keys: readonly (readonly [string, RegExp, (path: string) => unknown])[] = [
  ['has 31 bytes', /has 31 bytes, not 32/, path => writeFile(path, Buffer.alloc(31))],
  ['has 64 hexadecimal digits', /has 64 bytes, not 32/, path => writeFile(path, 'ab'.repeat(32))],
  ['is not there', /cannot be used: ENOENT/, path => rm(path)],
  ['others can read', /others can read it \(mode 0604\): its key may be known/, path => chmod(path, 0o604)],
  ['others can write', /can be written by others/, path => chmod(path, 0o602)],
  ...(isRoot
    ? ([
        [
          'the group of others can read',
          /others can read it \(mode 0640\)/,
          (path: string) => chown(path, 0, 12_345).then(() => chmod(path, 0o640)),
        ],
        ['another user owns', /it belongs to uid 12345, neither root nor 0/, (path: string) => chown(path, 12_345, 0)],
      ] as const)
    : []),
]
for (const [what, reason, damage] of keys)
  test(`a key file that ${what} is refused with the remedy, and no store is made`, async () => {
    await using restarts = await sealedRestarts()
    const path = restarts.keyFile ?? ''
    await chmod(path, 0o600)
    await damage(path)
    await assert.rejects(open(restarts), (error: unknown) => {
      assert.ok(error instanceof StoreError && error.code === 'unusable-key')
      assert.match(error.message, reason)
      assert.ok(error.message.startsWith(`store.keyFile ${path} `))
      assert.match(error.message, /Write 32 random bytes there, for the agent's user alone: \(umask 077; head -c 32 /)
      return true
    })
    await assert.rejects(stat(restarts.directory), /ENOENT/)
  })

test('a store whose mark was removed is not taken for a plain one: sealed entries are used', async () => {
  await using restarts = await sealedRestarts()
  await restarts.runOnce(WEB, API)
  await rm(join(restarts.directory, 'store.sealed'))
  assert.deepEqual(await askedFor(restarts), { asked: [], told: '' })
})

test('a key file that the group of root or of the agent can read is a credential of systemd, or a Secret', {
  skip: !isRoot && 'only root can choose the group',
}, async () => {
  await using restarts = await sealedRestarts()
  const path = restarts.keyFile ?? ''
  await chown(path, 0, 0)
  await chmod(path, 0o440)
  assert.deepEqual(await readStoreKey(path), Buffer.alloc(32, 7))
})
