/** Certificates of a new kind: one client first. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Bench } from '../../test/manager-bench.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { makeIssuer } from '../testing/test-ca.ts'

const ACK_WAIT = 60_000
const DAY = 86_400_000
const names = Array.from({ length: 3 }, (_, index): SpiffeId => `spiffe://cluster.local/ns/default/sa/sa-${index}`)

/** A client that streams one certificate, and answers when the test says. */
class Client implements Disposable {
  readonly #bench: Bench
  readonly #identity: SpiffeId
  readonly #parts = new DisposableStack()
  readonly #stream

  constructor(bench: Bench, identity: SpiffeId) {
    this.#bench = bench
    this.#identity = identity
    this.#parts.use(bench.manager.watch({ kind: 'identity', identity }, () => {}))
    this.#stream = this.#parts.use(bench.manager.receipts.open(() => `the client of ${identity.slice(-4)}`))
  }

  accept(): void {
    this.#stream.accepted(this.#sent())
  }

  reject(reason: string): void {
    this.#stream.rejected(this.#sent(), reason)
  }

  [Symbol.dispose](): void {
    this.#parts.dispose()
  }

  #sent() {
    return { ledgerName: this.#identity, version: this.#bench.served(this.#identity)?.version ?? '' }
  }
}

function issuerOf(bench: Bench, identity: SpiffeId): string {
  return new X509Certificate(bench.served(identity)?.certificateChain ?? '').issuer
}

const moved = (bench: Bench) => names.filter(name => issuerOf(bench, name) === 'CN=new issuer')

/** Signing takes real time: the clock waits for requests in flight. */
async function pass({ clock, manager }: Bench, ms: number): Promise<void> {
  const end = clock.now() + ms
  for (;;) {
    await clock.advance(0)
    while (manager.entries().some(({ renewAt }) => renewAt === undefined)) await setImmediate()
    if (clock.now() >= end) return
    const next = clock.deadlines().find(time => time > clock.now()) ?? end
    await clock.advance(Math.min(next, end) - clock.now())
  }
}

/** Three identities with certificates, and a CA that signs with a new intermediate from now on. */
async function started(): Promise<Bench> {
  const bench = await Bench.create({ ttlSeconds: DAY / 1_000, rotation: { jitter: 0 } })
  for (const name of names) await bench.add(name)
  const issuer = await makeIssuer('CN=new issuer', bench.clock.now(), bench.ca.newestRoot())
  bench.ca.answer = async (request, sign) => {
    const { chain, ...answer } = await sign(request, { issuer })
    return { ...answer, chain: [...chain, issuer.pem] }
  }
  return bench
}

const RENEWAL = DAY / 2 + 1_000

test('of certificates of a new issuer one is served, and the others once its client has accepted it', async () => {
  await using bench = await started()
  using clients = new DisposableStack()
  const all = names.map(name => clients.use(new Client(bench, name)))
  await pass(bench, RENEWAL)
  const [first, ...others] = moved(bench)
  assert.ok(first)
  assert.deepEqual(others, [])
  assert.equal(bench.last('held').reason, 'on-trial')
  all[names.indexOf(first)]?.accept()
  await pass(bench, 0)
  assert.deepEqual(moved(bench), names)
})

test('a client that rejects the first one keeps the others where they are, until theirs are about to end', async () => {
  await using bench = await started()
  using clients = new DisposableStack()
  const all = names.map(name => clients.use(new Client(bench, name)))
  await pass(bench, RENEWAL)
  const [first] = moved(bench)
  assert.ok(first)
  all[names.indexOf(first)]?.reject('unknown critical extension')
  assert.equal(
    bench.last('trial-rejected').reason,
    `the client of ${first.slice(-4)} rejects it: unknown critical extension`,
  )
  await pass(bench, 10 * ACK_WAIT)
  assert.equal(moved(bench).length, 1)
  await pass(bench, DAY / 2 - RENEWAL + DAY / 2 - 10 * ACK_WAIT - 1_000)
  assert.deepEqual(moved(bench), names)
  assert.equal(bench.count('withdrawn'), 0)
})

test('a client that says nothing is waited for up to the bound', async () => {
  await using bench = await started()
  using clients = new DisposableStack()
  for (const name of names) clients.use(new Client(bench, name))
  await pass(bench, RENEWAL)
  assert.equal(moved(bench).length, 1)
  await pass(bench, ACK_WAIT)
  assert.deepEqual(moved(bench), names)
})

test('where nobody streams, nothing waits', async () => {
  await using bench = await started()
  await pass(bench, RENEWAL)
  assert.deepEqual(moved(bench), names)
  assert.equal(bench.count('held'), 0)
})
