import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import { CAError, type CertificateRequest } from '../contract/ca-client.ts'
import { plainKeyVault, SealedKey } from '../contract/key-vault.ts'
import type { PendingRequest } from '../contract/store.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { PendingRequestsInMemory } from './pending-requests.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

/** One request to a plugin that waits for an approval. */
interface Try {
  readonly kept: string | undefined
  readonly csr: string
}

/** A bench whose CA keeps the note that `noteOf` returns for each attempt, and answers once `isApproved`. */
async function setUp(noteOf: (attempt: number) => string | undefined, isApproved: (attempt: number) => boolean) {
  const tries: Try[] = []
  const bench = await Bench.create({}, ca => {
    ca.answer = async (request, sign) => {
      tries.push({ kept: request.ticket?.stored, csr: (await request.csr()).pem })
      const attempt = tries.length
      if (isApproved(attempt)) return await sign(request)
      await request.ticket?.store(noteOf(attempt))
      throw new CAError('unavailable', 'not approved yet')
    }
  })
  return { bench, tries }
}

async function failAgain(bench: Bench, times: number): Promise<void> {
  const before = bench.count('ca-error')
  for (let time = 1; time <= times; time++) {
    if (before + time > 1) await bench.toNextDue(WEB)
    await bench.until('ca-error', before + time)
  }
}

const isWiped = (key: Uint8Array) => key.every(byte => byte === 0)

test('a request that waits for an approval has its note, its key and its CSR again at each try, until it is issued', async () => {
  const { bench, tries } = await setUp(
    attempt => `request ${attempt}`,
    attempt => attempt === 3 || attempt === 4,
  )
  await using _ = bench
  bench.manager.add(WEB)
  await failAgain(bench, 2)
  assert.equal(bench.keys.handedOut.length, 1)
  await bench.toNextDue(WEB)
  await bench.until('issued', 1)
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  assert.deepEqual(
    tries.map(({ kept }) => kept),
    [undefined, 'request 1', 'request 2', undefined],
  )
  const csrs = tries.map(({ csr }) => csr)
  assert.deepEqual(new Set(csrs.slice(0, 3)).size, 1)
  assert.notEqual(csrs[3], csrs[0])
  assert.equal(bench.keys.handedOut.length, 2)
})

test('without a note each try has a new key, and so after a note was dropped', async () => {
  const { bench, tries } = await setUp(
    attempt => (attempt === 2 ? 'request' : undefined),
    () => false,
  )
  await using _ = bench
  bench.manager.add(WEB)
  await failAgain(bench, 4)
  assert.deepEqual(
    tries.map(({ kept }) => kept),
    [undefined, undefined, 'request', undefined],
  )
  const [first, second, third, fourth] = tries.map(({ csr }) => csr)
  assert.notEqual(first, second)
  assert.equal(second, third)
  assert.notEqual(third, fourth)
  assert.ok(bench.keys.handedOut.every(isWiped))
})

test('a note that is kept while the CSR was never asked for keeps a key all the same', async () => {
  const kept: (string | undefined)[] = []
  await using bench = await Bench.create({}, ca => {
    ca.answer = async ({ ticket }) => {
      kept.push(ticket?.stored)
      await ticket?.store('early')
      throw new CAError('unavailable', 'later')
    }
  })
  bench.manager.add(WEB)
  await failAgain(bench, 2)
  assert.deepEqual([kept, bench.keys.handedOut.length], [[undefined, 'early'], 1])
})

const ends: readonly (readonly [string, (bench: Bench) => Promise<void> | void])[] = [
  ['forgotten', ({ manager }) => manager.forget(WEB)],
  [
    'removed and its grace is over',
    async ({ manager, clock }) => {
      manager.remove(WEB)
      await clock.advance(300_000)
    },
  ],
]
for (const [what, end] of ends)
  test(`a pending request of an identity that is ${what} is dropped: the identity returns with a new key and no note`, async () => {
    const { bench, tries } = await setUp(
      () => 'request',
      () => false,
    )
    await using _ = bench
    bench.manager.add(WEB)
    await failAgain(bench, 1)
    await end(bench)
    assert.deepEqual([...bench.manager.identities()], [])
    const before = tries.length
    bench.manager.add(WEB)
    await bench.until('ca-error', bench.count('ca-error') + 1)
    assert.equal(tries[before]?.kept, undefined)
    assert.notEqual(tries[before]?.csr, tries[0]?.csr)
  })

test('requests that are given up while they wait for an approval leave the CA as much at once as before', async () => {
  await using bench = await Bench.create({ concurrency: 16, timeoutMs: 5_000 })
  const allKept = Promise.withResolvers<void>()
  let kept = 0
  bench.ca.answer = async ({ ticket }) => {
    await ticket?.store('request')
    if (++kept === 4) allKept.resolve()
    return new Promise(() => {})
  }
  for (let index = 1; index <= 4; index++) bench.manager.add(`spiffe://cluster.local/ns/default/sa/sa-${index}`)
  await allKept.promise
  await bench.clock.advance(5_000)
  await bench.until('retry-planned', 4)
  assert.equal(bench.last('ca-error').code, 'timeout')
  await bench.clock.advance(500)
  assert.equal(bench.count('csr-sent'), 4 + 4)
})

test('a note that comes after the request was given up is not kept', async () => {
  const asked = Promise.withResolvers<CertificateRequest>()
  await using bench = await Bench.create({}, ca => {
    ca.answer = request => {
      request.signal.addEventListener('abort', () => void request.ticket?.store('late'))
      asked.resolve(request)
      return new Promise(() => {})
    }
  })
  bench.manager.add(WEB)
  const { ticket, signal } = await asked.promise
  const again = Promise.withResolvers<CertificateRequest>()
  bench.ca.answer = async request => {
    again.resolve(request)
    throw new CAError('unavailable', 'later')
  }
  bench.manager.forget(WEB)
  assert.ok(signal.aborted)
  await ticket?.store('later still')
  bench.manager.add(WEB)
  assert.equal((await again.promise).ticket?.stored, undefined)
})

test('a note that comes after the request has ended is not kept, whether it was issued or failed', async () => {
  const requests: CertificateRequest[] = []
  await using bench = await Bench.create({}, ca => {
    ca.answer = async (request, sign) => {
      requests.push(request)
      if (requests.length === 2) throw new CAError('unavailable', 'later')
      return await sign(request)
    }
  })
  bench.manager.add(WEB)
  await bench.until('issued', 1)
  await requests[0]?.ticket?.store('late')
  await bench.toNextDue(WEB)
  await bench.until('ca-error', 1)
  await requests[1]?.ticket?.store('late')
  await bench.toNextDue(WEB)
  await bench.until('issued', 2)
  assert.deepEqual(
    requests.map(({ ticket }) => ticket?.stored),
    [undefined, undefined, undefined],
  )
})

test('an answer that cannot be used ends the pending request: the next attempt starts again', async () => {
  const kept: (string | undefined)[] = []
  await using bench = await Bench.create({}, ca => {
    ca.answer = async (request, sign) => {
      kept.push(request.ticket?.stored)
      await request.ticket?.store('request')
      const wrong: SpiffeId = 'spiffe://cluster.local/other'
      return await sign(request, { names: [{ type: 'url', value: wrong }] })
    }
  })
  bench.manager.add(WEB)
  await failAgain(bench, 2)
  assert.equal(bench.last('ca-error').code, 'bad-response')
  assert.deepEqual(kept, [undefined, undefined])
})

for (const answer of [undefined, null, 'text', {}, { chain: 'PEM' }, { chain: [1] }, { chain: [], roots: [{}] }])
  test(`an answer of ${JSON.stringify(answer)} is a bad-response that says so`, async () => {
    await using bench = await Bench.create({}, ca => {
      ca.answer = async () => JSON.parse(JSON.stringify({ answer })).answer
    })
    bench.manager.add(WEB)
    await bench.until('ca-error', 1)
    const { code, message } = bench.last('ca-error')
    assert.equal(code, 'bad-response')
    assert.match(message, /breaks its contract: (chain|roots) is not a list of PEM/)
  })

test('a pending request in memory is a copy, is returned as a copy, and is wiped when it is replaced, dropped or closed', async () => {
  const open = (request: PendingRequest | undefined) => request?.key.sealed.open(bytes => Uint8Array.from(bytes))
  const sealed = () => new SealedKey(plainKeyVault, Uint8Array.of(1, 2, 3))
  const parts = { csrDer: Uint8Array.of(4), publicKeyDer: Uint8Array.of(5) }
  const key = { ...parts, sealed: sealed() }
  const pending = new PendingRequestsInMemory()
  await pending.put(WEB, { note: 'a', wish: '', key })
  key.sealed.wipe()
  const first = await pending.get(WEB)
  assert.deepEqual([first?.note, open(first)], ['a', Uint8Array.of(1, 2, 3)])
  first?.key.sealed.wipe()
  assert.deepEqual(open(await pending.get(WEB)), Uint8Array.of(1, 2, 3))
  pending.drop(WEB)
  assert.equal(await pending.get(WEB), undefined)
  await pending.put(WEB, { note: 'b', wish: '', key: { ...parts, sealed: sealed() } })
  pending[Symbol.dispose]()
  await pending.put(WEB, { note: 'c', wish: '', key: { ...parts, sealed: sealed() } })
  assert.equal(await pending.get(WEB), undefined)
})
