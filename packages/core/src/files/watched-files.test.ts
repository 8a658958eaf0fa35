import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { appendFileSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { FakeClock } from '../testing/fake-clock.ts'
import { pathsTo, WatchedFiles } from './watched-files.ts'

const root = temporaryFolder({ after })

let directories = 0
function makeDirectory(): string {
  const directory = join(root, `${directories++}`)
  mkdirSync(directory)
  return directory
}

/** A watch on a clock that the test advances. */
class Bench implements AsyncDisposable {
  readonly clock = new FakeClock()
  readonly errors: unknown[] = []
  looks = 0
  reason = ''
  readonly watched = new WatchedFiles(this.clock, error => this.errors.push(error))

  constructor(...files: string[]) {
    this.watched.add(files, reason => {
      this.looks++
      this.reason = reason
    })
  }

  /** Waits for the operating system's word that something happened, and until that is looked at. */
  async hint(): Promise<void> {
    await this.clock.waitForDeadline(time => time === this.clock.now() + 100)
    const before = this.looks
    await this.clock.advance(100)
    assert.equal(this.looks, before + 1)
    assert.notEqual(this.reason, 'poll')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.watched[Symbol.dispose]()
    assert.deepEqual(this.clock.deadlines(), [])
    assert.deepEqual(this.errors, [])
    await haveWatches(0)
  }
}

/** Resolves when the process has `count` watches: chokidar opens and closes them some turns later. */
async function haveWatches(count: number): Promise<void> {
  while (process.getActiveResourcesInfo().filter(kind => kind === 'FSEventWrap').length !== count) await setImmediate()
}

/** As the kubelet publishes a volume. */
function publish(directory: string, version: number, files: Readonly<Record<string, string>>): void {
  const data = join(directory, `..v${version}`)
  mkdirSync(data)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(data, name), text)
  symlinkSync(`..v${version}`, join(directory, '..data_tmp'))
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'))
  rmSync(join(directory, `..v${version - 1}`), { recursive: true, force: true })
}

test('the paths to a file are the symbolic links on the way and where they end', () => {
  const directory = makeDirectory()
  publish(directory, 1, { 'key.pem': '' })
  symlinkSync('..data/key.pem', join(directory, 'key.pem'))
  symlinkSync(directory, `${directory}-link`)
  assert.deepEqual(
    pathsTo(`${directory}-link/key.pem`),
    [`${directory}-link`, 'key.pem', '..data', '..v1/key.pem'].map(path =>
      path.startsWith('/') ? path : join(directory, path),
    ),
  )
})

test('of what does not exist, the first missing name is the end of the way', () => {
  const directory = makeDirectory()
  writeFileSync(join(directory, 'file'), '')
  symlinkSync('gone/far', join(directory, 'dangling'))
  assert.deepEqual(pathsTo(join(directory, 'a/b/c')), [join(directory, 'a')])
  assert.deepEqual(pathsTo(join(directory, 'dangling')), [join(directory, 'dangling'), join(directory, 'gone')])
  assert.deepEqual(pathsTo(join(directory, 'file/below')), [join(directory, 'file')])
})

test('circular links are followed 40 times at most', () => {
  const directory = makeDirectory()
  symlinkSync('b', join(directory, 'a'))
  symlinkSync('a', join(directory, 'b'))
  assert.equal(pathsTo(join(directory, 'a')).length, 41)
})

test('a change is looked at once, a moment later; other files of the directory are not', async () => {
  const directory = makeDirectory()
  const file = join(directory, 'key.pem')
  writeFileSync(file, '0')
  await using bench = new Bench(file, join(directory, 'cert.pem'))
  writeFileSync(join(directory, 'other'), '')
  writeFileSync(file, '1')
  writeFileSync(join(directory, 'cert.pem'), '1')
  await bench.hint()
  renameSync(join(directory, 'other'), file)
  await bench.hint()
  rmSync(file)
  await bench.hint()
})

test('what was written in place is told from what was renamed over it', async () => {
  const directory = makeDirectory()
  const [file, other] = [join(directory, 'key.pem'), join(directory, 'other')]
  writeFileSync(file, '0')
  await using bench = new Bench(file)
  writeFileSync(file, '1')
  await bench.hint()
  for (const [reason, change] of [
    ['event', () => writeFileSync(file, '2')],
    ['replaced', () => renameSync(other, file)],
    ['event', () => appendFileSync(file, '3')],
    ['replaced', () => rmSync(file)],
  ] as const) {
    writeFileSync(other, 'other')
    change()
    await bench.hint()
    assert.equal(bench.reason, reason)
  }
})

test('each of fifty publications by the kubelet is seen', async () => {
  const directory = makeDirectory()
  publish(directory, 0, { 'key.pem': '0' })
  symlinkSync('..data/key.pem', join(directory, 'key.pem'))
  await using bench = new Bench(join(directory, 'key.pem'))
  for (let version = 1; version <= 50; version++) {
    publish(directory, version, { 'key.pem': `${version}` })
    await bench.hint()
    // The first may have come before the watch.
    if (version > 1) assert.equal(bench.reason, 'replaced')
  }
})

test('where a link points to is watched from the next look on', async () => {
  const directory = makeDirectory()
  const file = join(directory, 'key.pem')
  const elsewhere = join(makeDirectory(), 'real.pem')
  writeFileSync(file, '0')
  writeFileSync(elsewhere, '1')
  await using bench = new Bench(file)
  symlinkSync(elsewhere, join(directory, 'new'))
  renameSync(join(directory, 'new'), file)
  await bench.hint()
  writeFileSync(elsewhere, '2')
  await bench.hint()
})

test('a directory that is replaced is seen and watched again', async () => {
  const directory = makeDirectory()
  const file = join(directory, 'key.pem')
  writeFileSync(file, '0')
  await using bench = new Bench(file)
  for (const how of ['moved', 'removed', 'removed again']) {
    if (how === 'moved') renameSync(directory, `${directory}-old`)
    else rmSync(directory, { recursive: true })
    mkdirSync(directory)
    writeFileSync(file, how)
    await bench.hint()
    writeFileSync(file, `${how}, then written`)
    await bench.hint()
  }
})

test('a flood in a directory is not read to its end, and what changed meanwhile is looked at a second later', async () => {
  const directory = makeDirectory()
  const file = join(directory, 'file')
  await using bench = new Bench(file)
  await haveWatches(1)
  writeFileSync(file, 'a')
  await bench.hint()
  for (let files = 0; files < 5_000; files++) writeFileSync(join(directory, `flood-${files}`), '')
  await bench.clock.waitForDeadline(time => time === bench.clock.now() + 1_000)
  await haveWatches(0)
  writeFileSync(file, 'b')
  await bench.clock.advance(1_000)
  await bench.hint()
  await haveWatches(1)
  writeFileSync(file, 'c')
  await bench.hint()
})

test('a replaced parent directory, which no watch reports, is found within a minute and watched again', async () => {
  const above = makeDirectory()
  mkdirSync(join(above, 'below'))
  const file = join(above, 'below/key.pem')
  await using bench = new Bench(file)
  renameSync(above, `${above}-old`)
  mkdirSync(join(above, 'below'), { recursive: true })
  await bench.clock.advance(60_000)
  assert.equal(bench.looks, 1)
  writeFileSync(file, '2')
  await bench.hint()
})

test('a file whose directories are created later is seen then', async () => {
  const directory = makeDirectory()
  const file = join(directory, 'a/b/key.pem')
  await using bench = new Bench(file)
  mkdirSync(join(directory, 'a/b'), { recursive: true })
  await bench.hint()
  writeFileSync(file, '1')
  await bench.hint()
})

test('it is looked at once a minute whatever happens, also while nothing is there', async () => {
  await using bench = new Bench(join(root, 'none/key.pem'))
  await bench.clock.advance(600_000)
  assert.equal(bench.looks, 10)
  assert.equal(bench.reason, 'poll')
})

test('a thousand sets are polled one by one, and the files that they share are watched once', async () => {
  const directory = makeDirectory()
  const clock = new FakeClock()
  let looks = 0
  using watched = new WatchedFiles(clock, error => assert.fail(String(error)), 10_000)
  const sets = Array.from({ length: 1_000 }, (_, index) =>
    watched.add([join(directory, `${index}.pem`), join(directory, 'root.pem')], () => {
      looks++
    }),
  )
  await haveWatches(1)
  assert.ok(new Set(clock.deadlines()).size > 900, 'many are due at the same time')
  await clock.advance(10_000)
  assert.equal(looks, 1_000)
  for (const set of sets) set[Symbol.dispose]()
  await haveWatches(0)
  assert.deepEqual(clock.deadlines(), [])
})

/** A separate namespace in which no inotify watch is available. */
const NO_WATCHES = ['-Ur', 'sh', '-c', 'echo 0 > /proc/sys/user/max_inotify_watches && exec "$@"', 'sh']
const noNamespace = spawnSync('unshare', [...NO_WATCHES, 'true']).status === 0 ? false : 'no user namespaces here'

test('unavailable watches are reported once, and polling continues', { skip: noNamespace }, () => {
  const core = (file: string) => JSON.stringify(fileURLToPath(new URL(file, import.meta.url)))
  const script = `
    import { WatchedFiles } from ${core('./watched-files.ts')}
    import { FakeClock } from ${core('../testing/fake-clock.ts')}
    const clock = new FakeClock()
    let looks = 0
    const { promise: refused, resolve } = Promise.withResolvers()
    using watched = new WatchedFiles(clock, ({ code }) => resolve(console.log(code)))
    for (const file of ['/proc/a', '/tmp/b', '/etc/c']) watched.add([file], () => looks++)
    await refused
    await clock.advance(120_000)
    console.log(String(looks))`
  const output = execFileSync('unshare', [
    ...NO_WATCHES,
    process.execPath,
    '--input-type=module-typescript',
    '-e',
    script,
  ])
  assert.equal(output.toString(), 'ENOSPC\n6\n')
})
