import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerInstantly, Bench, believer } from '../test/manager-bench.ts'
import { CAError } from './contract/ca-client.ts'
import { NO_WISH } from './contract/certificate-wish.ts'
import { Events } from './contract/events.ts'
import { plainKeyVault, type SealedKey } from './contract/key-vault.ts'
import type { SecretReport } from './contract/secret-event.ts'
import { fetch } from './fetch/fetch.ts'
import { newIdentity, type Request } from './state/identity.ts'
import { PendingRequestsInMemory } from './store/pending-requests.ts'
import { FakeClock } from './testing/fake-clock.ts'
import { TestCA } from './testing/test-ca.ts'
import { TestKeyGenerator } from './testing/test-key-generator.ts'
import { BundleTable } from './trust/bundle-table.ts'
import { RevocationTable } from './trust/revocation.ts'
import { RootReader } from './trust/root-reader.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

test('what falls due while a listener takes its time is done after it', async () => {
  const events = new Events<SecretReport>()
  await using bench = await Bench.create({ events }, ca => {
    ca.answer = () => Promise.reject(new CAError('unavailable', 'away'))
  })
  let isSlow = false
  events.subscribe(({ event }) => {
    // The next probe is due after a second.
    if (isSlow && event.kind === 'retry-planned') bench.clock.jump(2_000)
    if (event.kind === 'retry-planned') isSlow = false
  })
  bench.manager.add('spiffe://cluster.local/ns/a/sa/b')
  while (bench.count('ca-down') === 0) await bench.clock.advance(1_000)
  isSlow = true
  await bench.clock.advance(2_000)
  assert.equal(isSlow, false)
  const asked = bench.ca.requests.length
  await bench.clock.advance(20_000)
  assert.ok(bench.ca.requests.length > asked)
})

test('a listener that throws keeps nobody from a request, a timer or a renewal', async () => {
  const events = new Events<SecretReport>()
  await using bench = await Bench.create({ events, verifier: believer(600_000) }, answerInstantly)
  let isFaulty = true
  events.subscribe(({ event }) => {
    if (isFaulty && event.kind === 'csr-sent') throw new Error('a fault of this listener')
  })
  assert.throws(() => bench.manager.add(WEB), /a fault of this listener/)
  isFaulty = false
  await bench.until('issued', 1)
  await bench.clock.advance(3_600_000)
  assert.ok(bench.count('issued') > 6, `${bench.count('issued')} certificates`)
})

test('a key that was taken is not wiped by a fault of those who hear of it', async () => {
  const clock = new FakeClock()
  const ca = await TestCA.create(clock)
  answerInstantly(ca)
  const times = { settleMs: 0, ownSettleMs: 0, overlapMs: 0 }
  const bundles = new BundleTable('cluster.local', times, new RevocationTable())
  const noList = () => Promise.resolve()
  const options = {
    ca,
    clock,
    bundles,
    timeoutMs: 1_000,
    reader: new RootReader(),
    rootList: { refresh: noList, refreshAgain: noList, firstAsked: noList() },
    pending: new PendingRequestsInMemory(),
    verifier: believer(),
    vault: plainKeyVault,
    keyGenerator: new TestKeyGenerator(),
    keyType: 'ecdsa-p256',
    keyFormat: 'pkcs8',
  } as const
  const of = newIdentity(WEB, { addedAt: 0, slot: 0, tokenFile: undefined, wish: NO_WISH, keep: { kind: 'pinned' } })
  const request: Request = {
    of,
    reason: 'first',
    urgency: 'first',
    sentAt: clock.now(),
    connectWithinMs: undefined,
    ttlSeconds: 3_600,
    tokenFile: undefined,
    replaces: undefined,
    wish: NO_WISH,
    slot: 0,
  }
  let key: SealedKey | undefined
  const fetching = fetch(options, request, new AbortController(), answer => {
    key = answer.key
    throw new Error('a fault of a listener')
  })
  await assert.rejects(fetching, /a fault of a listener/)
  assert.equal(key?.isWiped, false)
})

test('a plugin that throws when its answer is accepted is reported, and the certificate is served', async () => {
  await using bench = await Bench.create()
  bench.ca.answer = async (request, sign) => ({
    ...(await sign(request)),
    accepted: () => {
      throw new Error('cannot note it')
    },
  })
  assert.equal((await bench.add(WEB)).privateKey.isWiped, false)
  const [error] = bench.events.flatMap(({ event }) => (event.kind === 'ca-error' ? [event.message] : []))
  assert.match(error ?? '', /failed when its answer was accepted: cannot note it/)
})

test('whoever was refused by a clock set ahead hears of a certificate once', async () => {
  await using bench = await Bench.create({ verifier: believer(600_000) }, answerInstantly)
  bench.manager.add(WEB)
  await bench.until('issued', 1)
  const jump = (bench.served(WEB)?.notAfter ?? 0) - bench.clock.now()
  bench.clock.jump(jump)
  const items: unknown[] = []
  using _watch = bench.manager.watch({ kind: 'identity', identity: WEB }, item => items.push(item))
  assert.equal(bench.served(WEB), undefined)
  bench.clock.jump(-jump)
  bench.manager.renew(WEB)
  await bench.clock.advance(1_000)
  await bench.until('issued', 2)
  await bench.clock.advance(20_000)
  assert.deepEqual(items, [bench.served(WEB)])
})
