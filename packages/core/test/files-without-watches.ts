/** A process without inotify: serves a pair in the folder of its argument, replaces it twice, and prints what it got. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { plainKeyVault } from '../src/contract/key-vault.ts'
import { FileSecrets } from '../src/file-secrets/file-secrets.ts'
import { FakeClock } from '../src/testing/fake-clock.ts'
import { PairIssuer } from '../src/testing/pair-issuer.ts'
import { systemErrorCode } from '../src/text/system-error-code.ts'

const folder = process.argv[2] ?? ''
const clock = new FakeClock()
const issuer = await PairIssuer.create(clock)
const names = ['first', 'second', 'third']
let served = 0
let wasRefused = false
using files = new FileSecrets({
  clock,
  vault: plainKeyVault,
  folders: [folder],
  expired: 'withhold',
  onWatchError: error => {
    wasRefused = true
    console.log(systemErrorCode(error))
  },
  report: () => {},
})
const both = join(folder, 'both.pem')
await write()
using _watch = files.subscribe({ kind: 'file-pair', chain: both, key: both }, () => served++)
while (!wasRefused) await clock.advance(0)
for (const [index, name] of names.entries()) {
  while (served <= index) await clock.advance(1_000)
  console.log(name)
  await write()
}

async function write(): Promise<void> {
  const { key, chain } = await issuer.issue('spiffe://cluster.local/ns/default/sa/web', 30 * 86_400)
  writeFileSync(both, key + chain.join(''))
}
