/** Why a request is made: what led to it, and the same for each retry. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import { CAError } from '../contract/ca-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const SETTLE = 10_000
const SECOND = 1_000

const causes: Readonly<Record<string, (bench: Bench) => unknown>> = {
  renewal: bench => bench.toNextDue(WEB),
  operator: bench => bench.manager.renew(WEB),
  'new-wish': bench => bench.manager.add(WEB, { wish: { dnsNames: ['web.example'] } }),
  'ca-changed': bench => bench.ca.changeCertificates(WEB),
  'new-root': bench => bench.ca.addRoot(),
}

for (const [reason, happen] of Object.entries(causes))
  test(`a request says that it is made for this reason, and so does each retry: ${reason}`, async () => {
    await using bench = await Bench.create({ rotation: { settleMs: SETTLE } })
    await bench.add(WEB)
    await bench.clock.advance(60 * SECOND)
    bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
    await happen(bench)
    const asked = () => bench.events.flatMap(({ event }) => (event.kind === 'csr-sent' ? [event.reason] : [])).slice(1)
    for (let second = 0; asked().length < 3; second++) {
      assert.ok(second < 600, `asked ${asked().length} times`)
      await bench.clock.advance(SECOND)
    }
    assert.deepEqual(new Set(asked()), new Set([reason]))
  })

test("a renewal that waits for the CA is the operator's once they ask for it", async () => {
  await using bench = await Bench.create({ concurrency: 1 })
  await bench.add(WEB)
  await bench.add(API)
  await bench.clock.advance(60 * SECOND)
  const away = Promise.withResolvers<void>()
  bench.ca.answer = async (request, sign) => {
    await away.promise
    return await sign(request)
  }
  bench.manager.renew(API)
  bench.ca.changeCertificates(WEB)
  bench.manager.renew(WEB)
  away.resolve()
  await bench.until('issued', 4)
  assert.equal(bench.last('csr-sent').reason, 'operator')
})
