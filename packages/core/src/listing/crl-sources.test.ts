/** The revocation lists of an operator while the configuration changes where they are from. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RootSource } from '../contract/root-source.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { makeCrl, makeIssuer } from '../testing/test-ca.ts'
import { CrlSources } from './crl-sources.ts'

const HOUR = 3_600_000

function file(name: string, text: string): RootSource {
  return {
    trustDomain: 'cluster.local',
    name,
    open: listener => {
      listener.listed([text])
      return { [Symbol.dispose]: () => {} }
    },
  }
}

test('a new source that carries the text of the old one counts by its name, and is reported when it is out of date', async () => {
  const clock = new FakeClock()
  const nextUpdate = clock.now() + HOUR
  const list = await makeCrl(await makeIssuer('CN=root', clock.now()), ['01'], { thisUpdate: clock.now(), nextUpdate })
  const read: string[] = []
  const events: SecretEvent[] = []
  using sources = new CrlSources({
    clock,
    record: (_, event) => events.push(event),
    read: (_, crls, source) => read.push(`${crls.length} of ${source}`),
  })
  sources.use([file('old.pem', list)])
  sources.use([file('old.pem', list)])
  assert.deepEqual(read, ['1 of old.pem'])
  sources.use([file('new.pem', list)])
  assert.deepEqual(read, ['1 of old.pem', '1 of new.pem'])
  await clock.advance(2 * HOUR)
  assert.deepEqual(
    events.map(event => event.kind === 'crl-unavailable' && event.source),
    ['new.pem'],
  )
})
