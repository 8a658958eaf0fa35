/**
 * A process in a mount namespace, on whose mounts inotify is silent: the lower layer of an overlay is written from outside of
 * it, or one folder is mounted over another. Replaces a pair in the folder of its argument twice, and prints what is served when.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { plainKeyVault } from '../src/contract/key-vault.ts'
import { FileSecrets } from '../src/file-secrets/file-secrets.ts'
import { FakeClock } from '../src/testing/fake-clock.ts'
import { PairIssuer } from '../src/testing/pair-issuer.ts'

/** The default. */
const POLL_MS = 60_000
const [kind, base = ''] = process.argv.slice(2)
const folder = join(base, 'served')
mkdirSync(folder)
let version = 0

/** Writes a version of the file, so that no event of its folder reports it. */
const WRITERS: Readonly<Record<string, (text: string) => void>> = {
  overlay: text => writeFileSync(join(base, 'lower', 'both.pem'), text),
  bind: text => {
    const next = join(base, `version-${version}`)
    mkdirSync(next)
    writeFileSync(join(next, 'both.pem'), text)
    execFileSync('mount', ['--bind', next, folder])
  },
}
const write = WRITERS[kind ?? '']
if (!write) throw new Error(`no such kind of mount: ${kind}`)

const clock = new FakeClock()
const issuer = await PairIssuer.create(clock)
let served: string | undefined
using files = new FileSecrets({
  clock,
  vault: plainKeyVault,
  folders: [folder],
  onWatchError: error => console.log(String(error)),
  report: (_, event) => {
    if (event.kind === 'read-from-files') served = event.serialNumber
  },
})

await replace()
if (kind === 'overlay') {
  const options = ['upper', 'work'].map(name => `${name}dir=${join(base, name)}`)
  execFileSync('mount', [
    '-t',
    'overlay',
    'overlay',
    '-o',
    [`lowerdir=${join(base, 'lower')}`, ...options].join(),
    folder,
  ])
}
const both = join(folder, 'both.pem')
using _watch = files.subscribe({ kind: 'file-pair', chain: both, key: both }, () => {})
await next(undefined)
for (const name of ['second', 'third']) {
  const before = served
  await replace()
  // An event would be there by now.
  for (let turn = 0; turn < 1_000; turn++) await setImmediate()
  await clock.advance(5_000)
  for (let turn = 0; turn < 1_000; turn++) await setImmediate()
  if (served !== before) console.log(`${name}: there was an event`)
  await next(before)
}

async function replace(): Promise<void> {
  const { key, chain } = await issuer.issue('spiffe://cluster.local/ns/default/sa/web', 30 * 86_400)
  write?.(key + chain.join(''))
  version++
}

/** Waits until another version than `before` is served, which is the last that was written. */
async function next(before: string | undefined): Promise<void> {
  const start = clock.now()
  if (before !== undefined) await clock.advance(POLL_MS)
  // Slowly: what the poll has found is read in real time.
  while (served === before) {
    await clock.advance(2)
    if (clock.now() - start > 60 * POLL_MS) throw new Error(`version ${version} is not served`)
  }
  console.log(`version ${version} after ${clock.now() - start < 2 * POLL_MS ? 'one poll' : 'more polls'}`)
}
