import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import { Restarts } from '../../test/restarts.ts'
import { CAError } from '../contract/ca-client.ts'
import type { RootListener, RootSource } from '../contract/root-source.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { IdentityEntry } from '../state/entry.ts'
import { makeCrl, makeIssuer, type TestCA, type TestIssuer } from '../testing/test-ca.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const HOUR = 3_600_000

/** The file of an operator that a test changes. */
class Lists implements RootSource {
  readonly trustDomain = 'cluster.local'
  readonly name = 'crl.pem'
  readonly #now: () => number
  #text: string
  #listener: RootListener | undefined

  constructor({ clock }: Pick<Bench, 'clock'>, text = '') {
    this.#now = () => clock.now()
    this.#text = text
  }

  open(listener: RootListener): Disposable {
    this.#listener = listener
    if (this.#text !== '') listener.listed([this.#text])
    return { [Symbol.dispose]: () => {} }
  }

  /** Each issuer has one list, of these serial numbers. */
  async write(...lists: readonly (readonly [Pick<TestIssuer, 'subject' | 'key'>, ...serials: readonly string[]])[]) {
    const dates = { thisUpdate: this.#now() - HOUR, nextUpdate: this.#now() + 100 * HOUR }
    const texts = await Promise.all(lists.map(([issuer, ...serials]) => makeCrl(issuer, serials, dates)))
    this.#text = texts.join('')
    this.#listener?.listed([this.#text])
  }
}

function entryOf({ manager }: Bench, identity: SpiffeId): IdentityEntry {
  const entry = manager.entry(identity)
  assert.ok(entry)
  return entry
}

/** The CA signs with an intermediate, from now on. */
async function signBelow(ca: TestCA, now: number, subject = 'CN=intermediate'): Promise<TestIssuer> {
  const issuer = await makeIssuer(subject, now, ca.newestRoot())
  ca.answer = async (request, sign) => {
    const { chain, ...rest } = await sign(request, { issuer })
    return { ...rest, chain: [...chain, issuer.pem] }
  }
  return issuer
}

const serialOf = ({ pem }: TestIssuer) => new X509Certificate(pem).serialNumber

for (const [when, revokeFirst] of [
  ['before it was replaced', true],
  ['while it was a spare', false],
] as const)
  test(`a certificate that was revoked ${when} does not come back when its successor ends`, async () => {
    await using bench = await Bench.create()
    const first = await bench.add(WEB)
    const lists = new Lists(bench)
    bench.manager.useCrlSources([lists])
    const revoke = () => lists.write([bench.ca.newestRoot(), first.serialNumber])
    bench.ca.answer = (request, sign) => sign(request, { notAfter: bench.clock.now() + 2_000 })
    if (revokeFirst) await revoke()
    else await bench.toNextDue(WEB)
    await bench.until('issued', 2)
    bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'the CA is down'))
    if (!revokeFirst) await revoke()
    await bench.clock.advance(3_000)
    assert.deepEqual([bench.served(WEB), first.privateKey.isWiped], [undefined, true])
  })

test('a leaf that a list names is renewed at once, and fails as revoked until then', async () => {
  await using bench = await Bench.create()
  const { ca, clock } = bench
  const lists = new Lists(bench)
  bench.manager.useCrlSources([lists])
  const [{ serialNumber }, other] = [await bench.add(WEB), await bench.add(API)]
  const held = Promise.withResolvers<void>()
  ca.answer = async (request, sign) => {
    await held.promise
    return await sign(request)
  }
  await clock.advance(HOUR)
  await lists.write([ca.newestRoot(), serialNumber.toUpperCase()])
  const entry = entryOf(bench, WEB)
  assert.equal(entry.state, 'failing')
  assert.equal(entry.lastFailure?.code, 'revoked')
  assert.match(entry.lastFailure?.message ?? '', new RegExp(serialNumber))
  assert.equal(entry.failingSince, clock.now())
  assert.equal(bench.last('revoked').serialNumber, serialNumber)
  assert.equal(bench.last('csr-sent').reason, 'revoked')
  assert.equal(bench.served(WEB)?.serialNumber, serialNumber, 'there is no better one yet')
  assert.equal(entryOf(bench, API).state, 'available')
  held.resolve()
  await bench.until('issued', 3)
  assert.notEqual(bench.served(WEB)?.serialNumber, serialNumber)
  assert.equal(entryOf(bench, WEB).state, 'available')
  assert.equal(entryOf(bench, WEB).failingSince, undefined)
  assert.equal(bench.served(API)?.serialNumber, other.serialNumber)
  assert.equal(bench.count('revoked'), 1)
})

test('a list of another issuer, with another name or another key, revokes nothing by the same serial number', async () => {
  await using bench = await Bench.create()
  const lists = new Lists(bench)
  bench.manager.useCrlSources([lists])
  const { serialNumber } = await bench.add(WEB)
  const { subject } = bench.ca.newestRoot()
  const [stranger, namesake] = [
    await makeIssuer('CN=other', bench.clock.now()),
    await makeIssuer(subject, bench.clock.now()),
  ]
  await lists.write([stranger, serialNumber], [namesake, serialNumber])
  assert.equal(entryOf(bench, WEB).state, 'available')
  assert.equal(bench.count('revoked'), 0)
})

test('all leaves under an intermediate that a list names are renewed, no more at once than the CA gets otherwise', async () => {
  const concurrency = 4
  await using bench = await Bench.create({ concurrency })
  const { ca, clock } = bench
  const lists = new Lists(bench)
  bench.manager.useCrlSources([lists])
  const revoked = await signBelow(ca, clock.now())
  const all = Array.from({ length: 20 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/load/sa/sa-${index}`)
  for (const identity of all) await bench.add(identity)
  await signBelow(ca, clock.now(), 'CN=next intermediate')
  const { answer } = ca
  let [running, most] = [0, 0]
  ca.answer = async (...args) => {
    most = Math.max(most, ++running)
    await new Promise(setImmediate)
    running--
    return await answer(...args)
  }
  await lists.write([ca.newestRoot(), serialOf(revoked)])
  assert.ok(all.every(identity => entryOf(bench, identity).lastFailure?.code === 'revoked'))
  await bench.until('issued', 40)
  assert.ok(all.every(identity => entryOf(bench, identity).state === 'available'))
  assert.ok(most <= concurrency, `${most} at once`)
})

test('a CA that gives a revoked certificate again is asked with backoff, and the one in use stays', async () => {
  await using bench = await Bench.create()
  const { ca, clock } = bench
  const lists = new Lists(bench)
  bench.manager.useCrlSources([lists])
  const revoked = await signBelow(ca, clock.now())
  const { serialNumber } = await bench.add(WEB)
  ca.requests.length = 0
  await lists.write([ca.newestRoot(), serialOf(revoked)])
  await bench.until('retry-planned', 1)
  assert.equal(bench.served(WEB)?.serialNumber, serialNumber)
  assert.equal(bench.last('ca-error').code, 'bad-response')
  assert.match(bench.last('ca-error').message, /revoked.*intermediate/)
  const { code, message } = entryOf(bench, WEB).lastFailure ?? {}
  assert.equal(code, 'revoked')
  assert.match(message ?? '', /bad-response/)
  for (let tries = 2; tries <= 8; tries++) {
    await bench.toNextDue(WEB)
    await bench.until('retry-planned', tries)
  }
  assert.equal(ca.requests.length, 8)
  const waits = entryOf(bench, WEB).renewAt
  assert.ok(waits !== undefined && waits - clock.now() > 10_000, 'it asks less and less often')
  // Listed again, as an operator's job does each hour.
  await lists.write([ca.newestRoot(), serialOf(revoked), '4a4a'])
  assert.equal(bench.count('revoked'), 1)
  assert.equal(entryOf(bench, WEB).renewAt, waits)
  bench.manager.add(API)
  await bench.until('ca-error', 9)
  assert.equal(bench.served(API), undefined, 'a new identity gets no revoked one')
  assert.equal(entryOf(bench, API).lastFailure?.code, 'bad-response')
  await signBelow(ca, clock.now(), 'CN=next intermediate')
  await bench.toNextDue(WEB)
  await bench.until('issued', 3)
  for (const identity of [WEB, API] as const) assert.equal(entryOf(bench, identity).state, 'available')
})

test('a list that no longer names a certificate clears it, whatever was planned', async () => {
  await using bench = await Bench.create()
  const { ca } = bench
  const lists = new Lists(bench)
  bench.manager.useCrlSources([lists])
  const { serialNumber } = await bench.add(WEB)
  const held = Promise.withResolvers<void>()
  ca.answer = async (request, sign) => {
    await held.promise
    return await sign(request)
  }
  await lists.write([ca.newestRoot(), serialNumber])
  assert.equal(entryOf(bench, WEB).state, 'failing')
  await lists.write([ca.newestRoot()])
  assert.equal(entryOf(bench, WEB).state, 'renewing')
  await lists.write([ca.newestRoot(), serialNumber])
  assert.equal(bench.count('revoked'), 2)
  bench.manager.useCrlSources([])
  assert.equal(entryOf(bench, WEB).failingSince, undefined)
  held.resolve()
})

test('a certificate that is listed while its successor waits for its root is replaced by it, or by a third if both are', async () => {
  await using bench = await Bench.create({ rotation: { ratio: 0.5, jitter: 0, settleMs: HOUR } })
  const { ca, clock } = bench
  const lists = new Lists(bench)
  bench.manager.useCrlSources([lists])
  const first = ca.newestRoot()
  const [web, api] = [await bench.add(WEB), await bench.add(API)]
  await ca.addRoot()
  for (const identity of [WEB, API] as const) bench.manager.renew(identity)
  await clock.advance(2_000)
  await bench.until('served-later', 2)
  const waiting = bench.events
    .flatMap(({ name, event }) => (event.kind === 'issued' ? [{ name, ...event }] : []))
    .slice(2)
  assert.equal(bench.served(WEB)?.serialNumber, web.serialNumber)
  const ofApi = waiting.find(({ name }) => name === API)?.serialNumber ?? ''
  await lists.write([first, web.serialNumber, api.serialNumber], [ca.newestRoot(), ofApi])
  assert.equal(bench.served(WEB)?.serialNumber, waiting.find(({ name }) => name === WEB)?.serialNumber)
  assert.equal(entryOf(bench, WEB).state, 'available')
  assert.equal(entryOf(bench, API).lastFailure?.code, 'revoked')
  await bench.until('issued', 5)
  assert.notEqual(bench.served(API)?.serialNumber, ofApi)
  assert.notEqual(bench.served(API)?.serialNumber, api.serialNumber)
})

test('a restored certificate that a list names is served until the CA gives another, which is asked for at once', async () => {
  await using restarts = await Restarts.create()
  const [serial = ''] = await restarts.runOnce(WEB)
  const { ca } = restarts
  const lists = new Lists(restarts)
  await lists.write([ca.newestRoot(), serial])
  ca.answer = () => Promise.reject(new CAError('unavailable', 'the CA is down'))
  await using run = await restarts.start({ crlSources: [lists] })
  const { bench } = run
  assert.equal((await bench.add(WEB)).serialNumber, serial)
  assert.equal(entryOf(bench, WEB).lastFailure?.code, 'revoked')
  await bench.until('retry-planned', 1)
  assert.match(entryOf(bench, WEB).lastFailure?.message ?? '', /unavailable/)
  ca.answer = (request, sign) => sign(request)
  await bench.toNextDue(WEB)
  await bench.until('issued', 1)
  assert.equal(entryOf(bench, WEB).state, 'available')
})

test('a list that is out of date still counts: verifiers refuse everybody, and its certificate above all', async () => {
  await using bench = await Bench.create()
  const { serialNumber } = await bench.add(WEB)
  const now = bench.clock.now()
  const late = await makeCrl(bench.ca.newestRoot(), [serialNumber], {
    thisUpdate: now - 2 * HOUR,
    nextUpdate: now - HOUR,
  })
  bench.ca.answer = () => Promise.reject(new CAError('unavailable', 'the CA is down'))
  bench.manager.useCrlSources([new Lists(bench, late)])
  assert.equal(entryOf(bench, WEB).lastFailure?.code, 'revoked')
})
