import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { temporaryFolder } from '@livery/test-support'
import { FakeClock } from '../testing/fake-clock.ts'
import { FolderWatches } from './folder-watches.ts'

const root = temporaryFolder({ after })

class Bench implements Disposable {
  readonly folders: readonly string[]
  readonly watched = new Set<string>()
  readonly events: string[] = []
  readonly floods: string[] = []
  readonly clock = new FakeClock()
  #wake: (() => void) | undefined
  readonly watches = new FolderWatches(this.clock, event => {
    if (event.kind === 'failed') assert.fail(String(event.error))
    if (event.kind === 'changed') this.events.push(join(event.folder, event.name ?? ''))
    else if (event.kind === 'watched') this.watched.add(event.folder)
    else this.floods.push(event.folder)
    this.#wake?.()
  })

  constructor(name: string, count: number) {
    this.folders = Array.from({ length: count }, (_, index) => join(root, name, `${index}`))
    for (const folder of this.folders) mkdirSync(folder, { recursive: true })
  }

  /** Waits until `isDone`; the watches report what makes it so. */
  async until(isDone: () => boolean): Promise<void> {
    while (!isDone()) await new Promise<void>(resolve => (this.#wake = resolve))
  }

  [Symbol.dispose](): void {
    this.watches[Symbol.dispose]()
  }
}

/** Resolves when the process has `count` watches: chokidar opens and closes them some turns later. */
async function haveWatches(count: number): Promise<void> {
  while (process.getActiveResourcesInfo().filter(kind => kind === 'FSEventWrap').length !== count) await setImmediate()
}

test('each of a hundred folders is watched, with what happens in it and not below', async () => {
  using bench = new Bench('many', 100)
  for (const folder of bench.folders) bench.watches.add(folder)
  await bench.until(() => bench.watched.size === 100)
  const expected = bench.folders.map(folder => join(folder, 'file'))
  for (const file of expected) writeFileSync(file, '')
  await bench.until(() => expected.every(file => bench.events.includes(file)))
})

test('a file that is written twice in a millisecond with the same size is an event each time', async () => {
  using bench = new Bench('twice', 1)
  const [folder = ''] = bench.folders
  const file = join(folder, 'file')
  writeFileSync(file, 'a')
  bench.watches.add(folder)
  await bench.until(() => bench.watched.size === 1)
  for (let times = 1; times <= 50; times++) {
    const before = bench.events.length
    writeFileSync(file, `${times % 10}`)
    await bench.until(() => bench.events.length > before)
  }
})

test('a folder that is deleted while it is added holds up no other, and no watch is left', async () => {
  using bench = new Bench('deleted', 30)
  for (const folder of bench.folders) bench.watches.add(folder)
  await setImmediate()
  for (const folder of bench.folders.slice(0, 24)) bench.watches.delete(folder)
  await bench.until(() => bench.watched.size === 6)
  assert.deepEqual([...bench.watched], bench.folders.slice(24))
  for (const folder of bench.folders) bench.watches.delete(folder)
  await haveWatches(0)
})

test('no watch is left of folders that were still to be added when all ended', async () => {
  const bench = new Bench('ended', 60)
  for (const folder of bench.folders) bench.watches.add(folder)
  await setImmediate()
  bench[Symbol.dispose]()
  await haveWatches(0)
  assert.equal(bench.watched.size, 0)
})

test('a folder in which more happens than is read is watched no longer, and may be watched again', async () => {
  using bench = new Bench('flood', 2)
  const [quiet = '', flooded = ''] = bench.folders
  for (const folder of bench.folders) bench.watches.add(folder)
  await bench.until(() => bench.watched.size === 2)
  for (let files = 0; files < 5_000; files++) writeFileSync(join(flooded, `${files}`), '')
  await bench.until(() => bench.floods.length > 0)
  await haveWatches(1)
  assert.deepEqual(bench.floods, [flooded])
  assert.ok(bench.events.length <= 1_000, `${bench.events.length} events were read`)
  await bench.clock.advance(1_000)
  writeFileSync(join(quiet, 'file'), '')
  await bench.until(() => bench.events.at(-1) === join(quiet, 'file'))
  bench.watched.clear()
  bench.watches.add(flooded)
  await bench.until(() => bench.watched.has(flooded))
  writeFileSync(join(flooded, 'file'), '')
  await bench.until(() => bench.events.at(-1) === join(flooded, 'file'))
})
