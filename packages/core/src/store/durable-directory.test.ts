import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { TemporaryFolder, temporaryFolder } from '@livery/test-support'
import { hasTool } from '../../test/has-tool.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { DurableDirectory } from './durable-directory.ts'
import { FileStore } from './file-store.ts'

const isRoot = process.geteuid?.() === 0

function mountSmallDisk(path: string): Disposable {
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=0700', 'tmpfs', path])
  return { [Symbol.dispose]: () => void execFileSync('umount', [path]) }
}

interface FreezableDisk {
  readonly path: string
  freeze(): void
  thaw(): void
}

/** A disk on which, once frozen, every write waits. */
function mountFreezableDisk(t: TestContext): FreezableDisk {
  const folder = new TemporaryFolder()
  const [image, path] = [join(folder.path, 'image'), join(folder.path, 'disk')]
  mkdirSync(path)
  execFileSync('truncate', ['-s', '8M', image])
  execFileSync('mkfs.ext4', ['-q', image])
  execFileSync('mount', ['-o', 'loop', image, path])
  let isFrozen = false
  const freeze = () => {
    execFileSync('fsfreeze', ['-f', path])
    isFrozen = true
  }
  const thaw = () => {
    if (isFrozen) execFileSync('fsfreeze', ['-u', path])
    isFrozen = false
  }
  t.after(() => {
    thaw()
    execFileSync('umount', ['--lazy', path])
    folder[Symbol.dispose]()
  })
  return { path: join(path, 'store'), freeze, thaw }
}

const noFreezing = !(isRoot && hasTool('fsfreeze') && hasTool('mkfs.ext4')) && 'needs root, fsfreeze and mkfs.ext4'

/** An open directory, and what it could not do. */
async function setUp(path: string) {
  const clock = new FakeClock()
  const directory = await DurableDirectory.open(path, clock)
  const failures: string[] = []
  directory.onFailure = (_, reason) => failures.push(reason)
  return { clock, directory, failures, read: (name: string) => readFile(join(path, name), 'utf8') }
}

test('the newest of many changes wins, whatever is under way', async t => {
  const { directory, read } = await setUp(temporaryFolder(t))
  const written: Promise<void>[] = []
  for (let round = 0; round < 200; round++) written.push(directory.write(`f${round % 3}`, 'x', Buffer.from(`${round}`)))
  await Promise.all(written)
  assert.deepEqual(await Promise.all(['f0', 'f1', 'f2'].map(read)), ['198', '199', '197'])
  assert.equal(directory.unwritten, 0)
  directory.remove('f1', 'x')
  assert.ok(!directory.has('f1'))
  await directory[Symbol.asyncDispose]()
  assert.deepEqual((await readdir(directory.path)).sort(), ['f0', 'f2'])
})

test('a directory that was released is not touched until it is reclaimed', async t => {
  const { directory, read } = await setUp(temporaryFolder(t))
  void directory.write('f', 'x', Buffer.from('of this process'))
  await directory.release()
  assert.equal(await read('f'), 'of this process')
  await writeFile(join(directory.path, 'f'), 'of the next one')
  await directory.write('f', 'x', Buffer.from('late'))
  directory.remove('f', 'x')
  await directory.release()
  assert.equal(await read('f'), 'of the next one')
  directory.reclaim()
  await directory.write('f', 'x', Buffer.from('back'))
  assert.equal(await read('f'), 'back')
})

test('a file that was to go while the directory was released goes when it is reclaimed, unless it was written again', async t => {
  const path = temporaryFolder(t)
  const { directory, read } = await setUp(path)
  for (const name of ['gone', 'again']) await directory.write(name, 'x', Buffer.from(name))
  await directory.release()
  for (const name of ['gone', 'again']) directory.remove(name, 'x')
  await directory.write('again', 'x', Buffer.from('late'))
  assert.equal(await read('gone'), 'gone')
  directory.reclaim()
  assert.deepEqual([...directory.names()], ['again'])
  await directory.release()
  assert.deepEqual(await readdir(path), ['again'])
})

test('the bytes are wiped when they are written, superseded, or too late', async t => {
  const { directory } = await setUp(temporaryFolder(t))
  const all = Array.from({ length: 5 }, () => Buffer.from('secret'))
  for (const bytes of all) void directory.write('f', 'x', bytes)
  await directory[Symbol.asyncDispose]()
  const late = Buffer.from('secret')
  await directory.write('f', 'x', late)
  assert.ok([...all, late].every(bytes => bytes.every(byte => byte === 0)))
})

test('a removed file is overwritten first', async t => {
  const path = temporaryFolder(t)
  const { directory } = await setUp(path)
  await directory.write('f', 'x', Buffer.from('secret'))
  const other = join(path, 'link')
  execFileSync('ln', [join(path, 'f'), other])
  directory.remove('f', 'x')
  await directory[Symbol.asyncDispose]()
  assert.deepEqual(await readFile(other), Buffer.alloc(6))
})

test('the remains of an interrupted write are removed at the start, and the old content is whole', async t => {
  const path = temporaryFolder(t)
  await writeFile(join(path, 'f'), 'old')
  await writeFile(join(path, 'f.0123456789ab.tmp'), 'ne')
  const { directory, read } = await setUp(path)
  assert.deepEqual(await readdir(path), ['f'])
  assert.equal(await read('f'), 'old')
  assert.deepEqual(directory.warnings, [])
  await directory[Symbol.asyncDispose]()
})

test('one file that cannot be written does not hold up the others; it is tried again until it can', async t => {
  const path = temporaryFolder(t)
  await mkdir(join(path, 'f'))
  const { clock, directory, failures, read } = await setUp(path)
  await directory.write('f', 'x', Buffer.from('1'))
  await directory.write('g', 'x', Buffer.from('2'))
  assert.equal(await read('g'), '2')
  assert.deepEqual([directory.unwritten, directory.failure], [1, 'EISDIR, illegal operation on a directory'])
  assert.match(failures.join(), /f cannot be kept: EISDIR, illegal operation on a directory$/)
  await rm(join(path, 'f'), { recursive: true })
  await clock.advance(2_000)
  await directory[Symbol.asyncDispose]()
  assert.deepEqual([directory.unwritten, directory.failure], [0, undefined])
  assert.equal(await read('f'), '1')
  assert.deepEqual(await readdir(path), ['f', 'g'])
})

test('a directory that others have put in the way at the end costs a warning, not the end', async t => {
  const path = temporaryFolder(t)
  const { directory, failures } = await setUp(path)
  await rm(path, { recursive: true })
  const bytes = Buffer.from('secret')
  void directory.write('f', 'x', bytes)
  await directory[Symbol.asyncDispose]()
  assert.match(failures.join(), /ENOENT/)
  assert.ok(bytes.every(byte => byte === 0))
})

test('on a full disk the old content stays, and the new comes when there is room', {
  skip: !isRoot && 'only root can mount a disk to fill',
}, async t => {
  const path = temporaryFolder(t)
  using _ = mountSmallDisk(path)
  const { clock, directory, failures, read } = await setUp(path)
  await directory.write('f', 'x', Buffer.from('old'))
  await directory.write('filler', 'x', Buffer.alloc(56 * 1024))
  await directory.write('f', 'x', Buffer.alloc(16 * 1024, 'n'))
  assert.match(failures.join(), /f cannot be kept: ENOSPC, no space left on device/)
  assert.equal(await read('f'), 'old')
  assert.deepEqual((await readdir(path)).sort(), ['f', 'filler'])
  await rm(join(path, 'filler'))
  await clock.advance(2_000)
  await directory[Symbol.asyncDispose]()
  assert.equal((await read('f')).length, 16 * 1024)
})

test('on a read-only disk what is there can be read, and a failed write is reported', {
  skip: !isRoot && 'only root can mount a disk',
}, async t => {
  const path = temporaryFolder(t)
  using _ = mountSmallDisk(path)
  await writeFile(join(path, 'f.0123456789ab.tmp'), 'left')
  execFileSync('mount', ['-o', 'remount,ro', path])
  const { directory, failures } = await setUp(path)
  assert.match(directory.warnings.join(), /left by an interrupted write, cannot be removed: EROFS/)
  await directory.write('f', 'x', Buffer.from('new'))
  assert.match(failures.join(), /f cannot be kept: EROFS, read-only file system/)
  await directory[Symbol.asyncDispose]()
})

test('a disk that hangs leaves other files to be read, and at the end the writes it still owes are reported', {
  skip: noFreezing,
  timeout: 20_000,
}, async t => {
  const disk = mountFreezableDisk(t)
  const { clock, directory, failures } = await setUp(disk.path)
  const first = directory.write('first', 'x', Buffer.from('1'))
  for (let index = 0; index < 40; index++) void directory.write(`f${index}`, 'x', Buffer.from('2'))
  await first
  // The next 32 are under way.
  disk.freeze()
  assert.match(await readFile(fileURLToPath(import.meta.url), 'utf8'), /a disk that hangs/)
  const end = directory[Symbol.asyncDispose]()
  await clock.advance(3_000)
  await end
  assert.equal(failures.length, 40)
  assert.match(failures.join(), /f39: the disk took longer than 3000 ms at the end/)
  disk.thaw()
  while (directory.unwritten > 0) await setImmediate()
})

test('a process that is killed while it writes leaves whole files, old or new, and nothing else after the next start', async t => {
  const path = join(temporaryFolder(t), 'store')
  const program = fileURLToPath(new URL('../../test/keep-until-killed.ts', import.meta.url))
  for (let killed = 0; killed < 5; killed++) {
    const child = spawn(process.execPath, ['--conditions=@livery/source', program, path], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let rounds = 0
    child.stdout.on('data', (text: Buffer) => {
      rounds += text.toString().split('\n').length - 1
      if (rounds > 10 + 7 * killed) child.kill('SIGKILL')
    })
    await once(child, 'close')
    const store = await FileStore.open({ directory: path, trustDomain: 'cluster.local', clock: new FakeClock() })
    for (let index = 0; index < 8; index++) {
      const kept = await store.read(`spiffe://cluster.local/sa-${index}`)
      if (kept) assert.ok(Buffer.from(kept.chain).toString().includes(String(kept.receivedAt).padStart(2_000, '0')))
    }
    await store[Symbol.asyncDispose]()
    assert.deepEqual(
      (await readdir(path)).filter(name => !/^[0-9a-f]{64}\.pem$/.test(name)),
      [],
    )
  }
})
