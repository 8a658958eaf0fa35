import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { FileWatch, pathsTo } from './file-watch.ts'

const root = mkdtempSync(join(tmpdir(), 'livery-watch-'))
after(() => rmSync(root, { recursive: true }))

let directories = 0
function makeDirectory(): string {
  const directory = join(root, `${directories++}`)
  mkdirSync(directory)
  return directory
}

/** A watch on a clock that moves when told. */
class Bench implements AsyncDisposable {
  readonly clock = new FakeClock()
  readonly errors: unknown[] = []
  looks = 0
  readonly watch: FileWatch

  constructor(file: string) {
    this.watch = new FileWatch({
      file,
      clock: this.clock,
      look: () => {
        this.looks++
      },
      onError: error => this.errors.push(error),
    })
  }

  /** Waits for the operating system's word that something happened, and until that is looked at. */
  async hint(): Promise<void> {
    await this.clock.waitForDeadline(time => time === this.clock.now() + 100)
    const before = this.looks
    await this.clock.advance(100)
    assert.equal(this.looks, before + 1)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.watch[Symbol.asyncDispose]()
    assert.deepEqual(this.clock.deadlines(), [])
    assert.deepEqual(this.errors, [])
  }
}

test('the paths to a file are the symbolic links on the way and where they end', () => {
  const directory = makeDirectory()
  mkdirSync(join(directory, '..v1'))
  writeFileSync(join(directory, '..v1/livery.yaml'), '')
  symlinkSync('..v1', join(directory, '..data'))
  symlinkSync('..data/livery.yaml', join(directory, 'livery.yaml'))
  symlinkSync(directory, `${directory}-link`)
  assert.deepEqual(
    pathsTo(`${directory}-link/livery.yaml`),
    [`${directory}-link`, 'livery.yaml', '..data', '..v1/livery.yaml'].map(path =>
      path.startsWith('/') ? path : join(directory, path),
    ),
  )
  assert.deepEqual(pathsTo('/no/such/file'), ['/no/such/file'])
})

test('links that lead in a circle come to an end', () => {
  const directory = makeDirectory()
  symlinkSync('b', join(directory, 'a'))
  symlinkSync('a', join(directory, 'b'))
  assert.equal(pathsTo(join(directory, 'a')).length, 41)
})

test('a change is looked at once, a moment later; other files of the directory are not', async () => {
  const directory = makeDirectory()
  const file = join(directory, 'livery.yaml')
  writeFileSync(file, '0')
  await using bench = new Bench(file)
  await bench.hint()
  writeFileSync(join(directory, 'other'), '')
  writeFileSync(file, '1')
  await bench.hint()
  renameSync(join(directory, 'other'), file)
  await bench.hint()
  rmSync(file)
  await bench.hint()
})

test('where a link points to is watched from the next look on', async () => {
  const directory = makeDirectory()
  const file = join(directory, 'livery.yaml')
  const elsewhere = join(makeDirectory(), 'real.yaml')
  writeFileSync(file, '0')
  writeFileSync(elsewhere, '1')
  await using bench = new Bench(file)
  await bench.hint()
  symlinkSync(elsewhere, join(directory, 'new'))
  renameSync(join(directory, 'new'), file)
  await bench.hint()
  // The new watch is set up.
  await bench.hint()
  writeFileSync(elsewhere, '2')
  await bench.hint()
})

test('a directory that is replaced, which watches lose, is found within a minute and watched again', async () => {
  const directory = makeDirectory()
  const file = join(directory, 'livery.yaml')
  writeFileSync(file, '0')
  await using bench = new Bench(file)
  await bench.hint()
  renameSync(directory, `${directory}-old`)
  mkdirSync(directory)
  writeFileSync(file, '1')
  const before = bench.looks
  await bench.clock.advance(60_000)
  assert.ok(bench.looks > before)
  await bench.hint()
  writeFileSync(file, '2')
  await bench.hint()
})

test('it is looked at once a minute whatever happens, also while nothing is there', async () => {
  await using bench = new Bench(join(root, 'none/livery.yaml'))
  await bench.clock.advance(600_000)
  assert.ok(bench.looks >= 10 && bench.looks <= 11)
})
