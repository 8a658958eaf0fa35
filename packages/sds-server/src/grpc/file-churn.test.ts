/**
 * Files that change while a client streams them, in every way in which programs write them: the client gets each final state
 * once and nothing else. `LIVERY_SLOW=1` runs ten times as many rounds.
 */
import { mkdirSync, readlinkSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type { IssuedPair } from '@livery/core/testing'
import { FileStream, startFileServer } from '../../test/file-server.ts'

const TIMES = process.env['LIVERY_SLOW'] ? 10 : 1

/** Writes one version of a pair to a folder that exists. */
type Writer = (folder: string, pair: IssuedPair, version: number) => Promise<void> | void

/** Longer than changes are gathered for: what is there in the middle of the work is looked at. Shorter than files have to be left alone for after that. */
const SLOW_WRITER_MS = 120
const chainOf = (pair: IssuedPair) => pair.chain.join('')

/** As the kubelet replaces the files of a volume: a new folder, and one link that is renamed. */
function kubelet(folder: string, pair: IssuedPair, version: number): void {
  const data = `..${version}`
  mkdirSync(join(folder, data))
  write(join(folder, data), pair)
  symlinkSync(data, join(folder, '..data_tmp'))
  const before = version === 0 ? undefined : readlinkSync(join(folder, '..data'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  if (before !== undefined) rmSync(join(folder, before), { recursive: true })
  else for (const name of ['cert.pem', 'key.pem']) symlinkSync(`..data/${name}`, join(folder, name))
}

const inPlace =
  (order: readonly ('cert' | 'key')[]): Writer =>
  async (folder, pair) => {
    for (const [index, which] of order.entries()) {
      if (index > 0) await setTimeout(SLOW_WRITER_MS)
      if (which === 'key') writeFileSync(join(folder, 'key.pem'), pair.key)
      else writeFileSync(join(folder, 'cert.pem'), chainOf(pair))
    }
  }

const renameOver: Writer = async (folder, pair) => {
  const parts = join(folder, 'new')
  mkdirSync(parts)
  write(parts, pair)
  renameSync(join(parts, 'key.pem'), join(folder, 'key.pem'))
  await setTimeout(SLOW_WRITER_MS)
  renameSync(join(parts, 'cert.pem'), join(folder, 'cert.pem'))
  rmSync(parts, { recursive: true })
}

/** The leaf alone looks whole for a moment, in which it is looked at. */
const truncateThenWrite: Writer = async (folder, pair) => {
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  for (const file of [cert, key]) writeFileSync(file, '', { flag: 'a' })
  for (const file of [cert, key]) truncateSync(file)
  await setTimeout(SLOW_WRITER_MS)
  writeFileSync(key, pair.key.slice(0, 100))
  await setTimeout(SLOW_WRITER_MS)
  writeFileSync(key, pair.key)
  const [leaf = '', ...intermediates] = pair.chain
  writeFileSync(cert, leaf.slice(0, 200), { flag: 'a' })
  writeFileSync(cert, leaf.slice(200), { flag: 'a' })
  await setTimeout(SLOW_WRITER_MS)
  writeFileSync(cert, intermediates.join(''), { flag: 'a' })
}

const deleteAndRecreate: Writer = async (folder, pair) => {
  for (const name of ['cert.pem', 'key.pem']) rmSync(join(folder, name), { force: true })
  await setTimeout(SLOW_WRITER_MS)
  write(folder, pair)
}

const replaceFolder: Writer = (folder, pair, version) => {
  const next = `${folder}-${version}`
  mkdirSync(next)
  write(next, pair)
  renameSync(folder, `${folder}-old-${version}`)
  renameSync(next, folder)
}

/** key.pem → first → second → a folder; the second is replaced. */
const linksInAChain: Writer = (folder, pair, version) => {
  const real = join(folder, `real-${version}`)
  mkdirSync(real)
  write(real, pair)
  symlinkSync(`real-${version}`, join(folder, 'second.new'))
  renameSync(join(folder, 'second.new'), join(folder, 'second'))
  if (version > 0) return
  symlinkSync('second', join(folder, 'first'))
  for (const name of ['cert.pem', 'key.pem']) symlinkSync(`first/${name}`, join(folder, name))
}

function write(folder: string, pair: IssuedPair): void {
  writeFileSync(join(folder, 'cert.pem'), chainOf(pair))
  writeFileSync(join(folder, 'key.pem'), pair.key)
}

const WRITERS: readonly (readonly [string, Writer, number])[] = [
  ['swapped as the kubelet does it', kubelet, 20],
  ['written in place, the key first', inPlace(['key', 'cert']), 5],
  ['written in place, the certificate first', inPlace(['cert', 'key']), 5],
  ['replaced by a rename, one after the other', renameOver, 5],
  ['truncated, then written in parts', truncateThenWrite, 3],
  ['deleted, then made again', deleteAndRecreate, 5],
  ['replaced with their folder', replaceFolder, 5],
  ['behind a chain of links', linksInAChain, 5],
]
for (const [how, writer, rounds] of WRITERS)
  test(`files that are ${how} are pushed once for each pair, and never half`, async t => {
    const { server, folder, issue } = await startFileServer(t)
    mkdirSync(folder)
    await writer(folder, await issue(), 0)
    const stream = new FileStream(server, nameIn(folder))
    await stream.next()
    for (let version = 1; version <= rounds * TIMES; version++) {
      const pair = await issue()
      await writer(folder, pair, version)
      await stream.expect(pair)
    }
  })

test('of many swaps in a row the last is served, and every one in between is whole', async t => {
  const { server, folder, issue } = await startFileServer(t)
  mkdirSync(folder)
  kubelet(folder, await issue(), 0)
  const stream = new FileStream(server, nameIn(folder))
  await stream.next()
  const pairs = await Promise.all(Array.from({ length: 50 }, issue))
  for (const [index, pair] of pairs.entries()) {
    kubelet(folder, pair, index + 1)
    await setTimeout(5)
  }
  const last = chainOf(pairs.at(-1) ?? (await issue()))
  while ((await stream.chain()) !== last);
})

test('a thousand names of files are each served, and pushed once when all of them change', async t => {
  const { server, folder, issue } = await startFileServer(t)
  const count = 100 * TIMES
  const [before, after] = [await issue(), await issue()]
  const folders = Array.from({ length: count }, (_, index) => join(folder, `${index}`))
  for (const each of folders) {
    mkdirSync(each, { recursive: true })
    kubelet(each, before, 0)
  }
  const streams = folders.map(each => new FileStream(server, nameIn(each)))
  await Promise.all(streams.map(stream => stream.expect(before)))
  for (const each of folders) kubelet(each, after, 1)
  await Promise.all(streams.map(stream => stream.expect(after)))
  // A second push of the same change would come before the third pair.
  const third = await issue()
  for (const each of folders) kubelet(each, third, 2)
  await Promise.all(streams.map(stream => stream.expect(third)))
})

function nameIn(folder: string): string {
  return `file-cert:${folder}/cert.pem~${folder}/key.pem`
}
