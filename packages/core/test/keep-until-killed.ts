/** A process that fills a store, over and over, until it is killed: `node keep-until-killed.ts DIRECTORY`. */

import type { SpiffeId } from '../src/spiffe/spiffe-id.ts'
import { FileStore } from '../src/store/file-store.ts'
import { SystemClock } from '../src/time/clock.ts'

const [, , directory = ''] = process.argv
const store = await FileStore.open({ directory, trustDomain: 'cluster.local', clock: new SystemClock() })
const key = Buffer.from(`-----BEGIN PRIVATE KEY-----\n${'A'.repeat(200)}\n-----END PRIVATE KEY-----\n`)
for (let round = 1; ; round++) {
  // As a chain it carries the round that its key carries too: a torn pair would show.
  const chain = Buffer.from(
    `-----BEGIN CERTIFICATE-----\n${String(round).padStart(2_000, '0')}\n-----END CERTIFICATE-----\n`,
  )
  for (let index = 0; index < 8; index++) {
    const identity: SpiffeId = `spiffe://cluster.local/sa-${index}`
    store.put(identity, { chain, privateKey: key, receivedAt: round, slot: 0, wish: '', isProvisional: false })
  }
  const safe = Promise.withResolvers<void>()
  setTimeout(safe.resolve, 2)
  await safe.promise
  process.stdout.write(`${round}\n`)
}
